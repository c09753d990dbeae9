"""Give several consecutive runs the same standard input.

If it is a file, each run starts reading where the first one did. If it is a pipe, everything
read so far is kept in a temporary file: each run gets that first, then the rest of the pipe. A
run that does not read its input consumes no more than a pipe's buffer.
"""

from __future__ import annotations

import os
import select
import tempfile
from types import TracebackType

_CHUNK = 65_536
_TICK_MS = 50  # used if the kernel cannot signal that a process has ended


class Feeder:
    """Feeds the runs from this process's standard input.

    Args:
        regular: it is a file.
    """

    def __init__(self, *, regular: bool) -> None:
        self._start = os.lseek(0, 0, os.SEEK_CUR) if regular else None
        self._kept = None if regular else tempfile.TemporaryFile(prefix="taupy-")  # noqa: SIM115
        self._size = 0
        self._ended = False  # the pipe
        self._reader = self._writer = -1

    def __enter__(self) -> Feeder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._kept is not None:
            self._kept.close()

    def begin(self) -> None:
        """Called before the run's process is created."""
        if self._start is not None:
            os.lseek(0, self._start, os.SEEK_SET)
        else:
            self._reader, self._writer = os.pipe()

    def take_as_input(self) -> None:
        """Called in the run's process."""
        if self._start is None:
            os.dup2(self._reader, 0)
            os.close(self._reader)
            os.close(self._writer)

    def feed(self, child: int) -> int:
        """Feed the run until it ends; returns its wait status."""
        if self._start is not None:
            return wait(child)
        os.close(self._reader)
        os.set_blocking(self._writer, False)
        try:
            ended = os.pidfd_open(child)
        except OSError:
            ended = -1
        try:
            return self._feed(child, ended)
        finally:
            self._close_writer()
            if ended >= 0:
                os.close(ended)

    def _feed(self, child: int, ended: int) -> int:
        at = 0
        while True:
            poll = select.poll()
            if ended >= 0:
                poll.register(ended, select.POLLIN)
            if self._writer >= 0:
                if at < self._size:
                    poll.register(self._writer, select.POLLOUT)
                elif self._ended:
                    self._close_writer()
                else:
                    poll.register(0, select.POLLIN)
                    poll.register(self._writer, 0)  # errors: the reader has gone
            ready = dict(poll.poll(None if ended >= 0 else _TICK_MS))
            if self._writer in ready:
                at = self._write(at) if ready[self._writer] & select.POLLOUT else self._give_up()
            if 0 in ready:
                self._read()
            if ended in ready or ended < 0:
                reaped, status = os.waitpid(child, 0 if ended in ready else os.WNOHANG)
                if reaped:
                    return status

    def _write(self, at: int) -> int:
        assert self._kept is not None
        try:
            return at + os.write(self._writer, os.pread(self._kept.fileno(), _CHUNK, at))
        except BlockingIOError:
            return at
        except BrokenPipeError:
            return self._give_up()

    def _give_up(self) -> int:
        """The run has closed its input."""
        self._close_writer()
        return 0

    def _read(self) -> None:
        assert self._kept is not None
        try:
            data = os.read(0, _CHUNK)
        except OSError:
            data = b""
        if data:
            os.pwrite(self._kept.fileno(), data, self._size)
            self._size += len(data)
        else:
            self._ended = True

    def _close_writer(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1


def wait(child: int) -> int:
    """The wait status of a process, once it has ended."""
    return os.waitpid(child, 0)[1]
