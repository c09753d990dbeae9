"""Run a case and observe its output, exit status, files and wall time.

The plain and the measured run take place in the same folder, one after the other, so that paths are
equal. Other text that varies is in `_VARYING`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pty
import re
import resource
import select
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

from taupy.model.processes import stat_fields

from .cases import Case

TIMEOUT_S = 120.0
TIMED_OUT = 9999
"""Exit status for a run that did not end in time."""

_VARYING = (
    (re.compile(rb"0x[0-9a-fA-F]{6,}"), b"0xADDRESS"),
    (re.compile(rb"\bin \d+\.\d+s\b"), b"in TIME s"),
    (re.compile(rb"\bpid[ =]\d+"), b"pid=PID"),
)
_RANDOM_NAMES = re.compile(rb"(pymp-|tmp)[a-z0-9_]{8}")


@dataclass(frozen=True)
class Outcome:
    """The result of one run; `files` maps each path to a description."""

    status: int
    stdout: bytes
    stderr: bytes
    files: dict[bytes, str]
    wall_s: float


class Sandbox:
    """A folder with everything that a run may write to: work, home, tmp; and taupy's db, state."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"
        self.home = root / "home"
        self.tmp = root / "tmp"
        self.state = root / "state"
        self.database = root / "db" / "x.db"

    def renew(self) -> None:
        for folder in (self.work, self.home, self.tmp, self.state, self.database.parent):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)

    def environment(self, case: Case | None = None) -> dict[str, str]:
        variables: dict[str, str | None] = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "XDG_STATE_HOME": str(self.state),
            "TAUPY_STATE_DIR": str(self.state / "taupy"),
        }
        if case is not None:
            variables.update(case.environment)
        return {
            name: value.replace("$WORK", str(self.work))
            for name, value in variables.items()
            if value is not None
        }

    def prepare(self, case: Case) -> None:
        """Write the case's files to the work folder."""
        files = dict(case.files)
        source = textwrap.dedent(case.source)
        if case.kind == "script" and source and case.target not in files:
            files[case.target] = source
        if case.kind == "module" and source and not files:
            files[f"{case.target}.py"] = source
        for name, content in files.items():
            path = os.path.join(os.fsencode(self.work), os.fsencode(name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if isinstance(content, str) and content.startswith("->"):
                os.symlink(content[2:], path)
                continue
            data = content if isinstance(content, bytes) else textwrap.dedent(content).encode()
            with open(path, "wb") as file:
                file.write(data)
        if case.before:
            subprocess.run(
                ["/bin/sh", "-ec", case.before],
                cwd=self.work,
                env={**self.environment(), "PYTHON": sys.executable},
                check=True,
                timeout=TIMEOUT_S,
            )

    def run(self, case: Case, launcher: tuple[str, ...]) -> Outcome:
        """Run the case with `launcher` between the interpreter's options and the target."""
        self.renew()
        self.prepare(case)
        given = self._files()
        source = textwrap.dedent(case.source)
        target: list[str | bytes] = {
            "script": [case.target],
            "module": ["-m", case.target],
            "code": ["-c", source],
            "stdin": ["-"],
        }[case.kind]
        command = [sys.executable, *case.options, *launcher, *target, *case.args]
        stdin = case.stdin
        if case.kind == "stdin" and stdin != "closed":
            stdin = source.encode() + stdin
        begin = time.monotonic()
        if case.stdout == "terminal":
            status, out, err = self._run_in_terminal(case, command)
        else:
            status, out, err = self._run_in_pipes(case, command, stdin)
        wall_s = time.monotonic() - begin
        if case.awaits is not None:
            _wait_for(self.work / case.awaits)
        files = {
            path: word for path, word in self._files().items() if not re.match(case.unlike, path)
        }
        unchanged = {path: "as given" for path, word in files.items() if given.get(path) == word}
        return Outcome(status, _settled(out), _settled(err), {**files, **unchanged}, wall_s)

    def taupy(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "taupy", *arguments],
            cwd=self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
        )

    def sweep(self) -> None:
        """Kill processes that the runs left: those with this folder in their environment."""
        mark = os.fsencode(self.root)
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                handle = os.pidfd_open(int(entry.name))
                try:
                    if mark in (entry / "environ").read_bytes():
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                finally:
                    os.close(handle)

    def _run_in_pipes(
        self, case: Case, command: list[str | bytes], stdin: bytes | str
    ) -> tuple[int, bytes, bytes]:
        streams = {1: case.stdout, 2: case.stderr}
        readers: dict[int, int] = {}
        writers: dict[int, int] = {}
        for number, stream in streams.items():
            if stream == "full":
                writers[number] = os.open("/dev/full", os.O_WRONLY)
            else:
                readers[number], writers[number] = os.pipe()
                if stream == "broken":
                    os.close(readers.pop(number))
        # A file, not a pipe, which would block if the program does not read it.
        with open(self.root / "stdin", "w+b") as given:
            given.write(stdin if isinstance(stdin, bytes) else b"")
            given.seek(0)

            def become() -> None:
                _settle_child(case)
                for number, closed in (
                    (0, stdin == "closed"),
                    *((number, stream == "closed") for number, stream in streams.items()),
                ):
                    if closed:
                        os.close(number)

            process = subprocess.Popen(
                command,
                cwd=self.work,
                env=self.environment(case),
                stdin=given,
                stdout=writers[1],
                stderr=writers[2],
                start_new_session=True,
                preexec_fn=become,
            )
        for writer in writers.values():
            os.close(writer)

        def prompt() -> None:
            _wait_until_busy_or_asleep(process.pid)
            if case.sends is not None:
                process.send_signal(case.sends)

        output = _read_all(readers, prompt)
        return _status(process, output is None), *_both(output)

    def _run_in_terminal(self, case: Case, command: list[str | bytes]) -> tuple[int, bytes, bytes]:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            ["setsid", "--ctty", *command],
            cwd=self.work,
            env=self.environment(case),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=lambda: _settle_child(case),
            start_new_session=False,
        )
        os.close(theirs)

        def prompt() -> None:
            _wait_until_busy_or_asleep(process.pid)
            os.write(ours, case.types)

        output = _read_all({1: ours}, prompt)
        return _status(process, output is None), *_both(output)

    def _files(self) -> dict[bytes, str]:
        words: dict[bytes, str] = {}
        for top in (self.work, self.home, self.tmp):
            for folder, folders, names in os.walk(os.fsencode(top)):
                for name in folders + names:
                    path = os.path.join(folder, name)
                    place = os.path.relpath(path, os.fsencode(self.root))
                    words[_RANDOM_NAMES.sub(rb"\1RANDOM", place)] = _word(path)
        return words


def _settle_child(case: Case) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in case.ignored:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, case.blocked)
    for name, limit in case.limits.items():
        resource.setrlimit(name, (limit, limit))


def _read_all(readers: dict[int, int], prompt) -> dict[int, bytes] | None:
    """Read all to the end; None if that takes too long."""
    output = {number: b"" for number in readers}
    opened = dict(readers)
    deadline = time.monotonic() + TIMEOUT_S
    prompted = False
    while opened and (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select(list(opened.values()), [], [], left)
        for number, reader in list(opened.items()):
            if reader not in ready:
                continue
            try:
                chunk = os.read(reader, 65536)
            except OSError:  # a terminal without users
                chunk = b""
            output[number] += chunk
            if not chunk:
                os.close(opened.pop(number))
        if not prompted and re.search(rb"^ready\r?$", output.get(1, b""), re.MULTILINE):
            prompted = True
            prompt()
    for reader in opened.values():
        os.close(reader)
    return None if opened else output


def _both(output: dict[int, bytes] | None) -> tuple[bytes, bytes]:
    if output is None:
        return b"", b""
    return output.get(1, b""), output.get(2, b"")


def _status(process: subprocess.Popen, late: bool) -> int:
    with contextlib.suppress(subprocess.TimeoutExpired):
        if not late:
            return process.wait(TIMEOUT_S)
    process.kill()
    process.wait()
    return TIMED_OUT


def _wait_until_busy_or_asleep(pid: int) -> None:
    """Wait until a program that said "ready" is where its signal is to reach it: its main thread
    sleeps at three looks in a row, or has computed for some hundredths of a second."""
    deadline = time.monotonic() + TIMEOUT_S
    begun, sleeps = None, 0
    while sleeps < 3 and time.monotonic() < deadline:
        state, *numbers = stat_fields(pid)
        ticks = sum(map(int, numbers[10:12]))
        begun = ticks if begun is None else begun
        if state == "Z" or ticks - begun > 5:
            return
        sleeps = sleeps + 1 if state == "S" else 0
        time.sleep(0.02)


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.05)


def _settled(text: bytes) -> bytes:
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text


def _word(path: bytes) -> str:
    facts = os.lstat(path)
    mode = stat.filemode(facts.st_mode)
    if stat.S_ISLNK(facts.st_mode):
        return f"{mode} -> {os.readlink(path)!r}"
    # A .pyc contains its source's time.
    if not stat.S_ISREG(facts.st_mode) or path.endswith(b".pyc"):
        return mode
    with open(path, "rb") as file:
        content = _settled(file.read())
    return f"{mode} {hashlib.sha256(content).hexdigest()[:12]} {content[:200]!r}"
