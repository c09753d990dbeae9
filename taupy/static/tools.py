"""NVIDIA's command-line tools: find them, query their capabilities, and run them within limits.

The disassembler reads untrusted files, so it runs in a process of its own with limits on memory,
time and output.
"""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

from taupy.cuda import libraries
from taupy.errors import FormatError, TaupyError

SECONDS = 600.0
MEMORY = 12 << 30
PRINTED = 8 << 30
"""Limits of one run of a tool, in bytes: its address space, and the size of its output or files."""

_MISSING = (
    "there is no {} on this machine: pip install 'taupy-profiler[static]', or put CUDA's bin "
    "folder on PATH (Triton brings it along, too)"
)


class ToolError(FormatError):
    """A tool rejects a file, or exceeds its limits."""


class NoCodeError(ToolError):
    """The tool finds no GPU code in a file."""


_NO_CODE = "does not contain device code"


@dataclass(frozen=True)
class Tools:
    """Attributes:
    nvdisasm, cuobjdump, ptxas: paths of the tools; `ptxas` is None if it is missing.
    """

    nvdisasm: Path
    cuobjdump: Path
    ptxas: Path | None

    @cached_property
    def _help(self) -> str:
        return _text([str(self.nvdisasm), "--help"])

    @cached_property
    def chips(self) -> frozenset[str]:
        """Compute capabilities that nvdisasm knows, such as "9.0"."""
        chips = re.findall(r"'SM(\d+)(\d)[af]?'", self._help)
        return frozenset(f"{major}.{minor}" for major, minor in chips)

    @cached_property
    def annotates(self) -> bool:
        """Whether nvdisasm can show the compiler's annotations, which mark spills."""
        return "--annotate" in self._help

    @cached_property
    def version(self) -> str:
        """The version as NVIDIA writes it, such as "13.5.37"."""
        match = re.search(r"\bV(\d[\d.]+)", _text([str(self.nvdisasm), "--version"]))
        return match[1] if match else "unknown"


def find() -> Tools:
    """The tools of this environment, otherwise those of the machine.

    Raises:
        TaupyError: nvdisasm or cuobjdump is missing; the message says how to get it.
    """
    paths = {name: next(libraries.programs(name), None) for name in ("nvdisasm", "cuobjdump")}
    for name, path in paths.items():
        if path is None:
            raise TaupyError(_MISSING.format(name))
    assert paths["nvdisasm"] and paths["cuobjdump"]
    return Tools(paths["nvdisasm"], paths["cuobjdump"], next(libraries.programs("ptxas"), None))


class Run:
    """A run of a tool, which is killed at the end of the `with` block. Its output goes to a file,
    so it never waits for a reader.

    Args:
        file: the tool's input, for messages.
    """

    def __init__(
        self, command: Sequence[str], file: Path, cwd: str | None = None, seconds: float = SECONDS
    ) -> None:
        self._name, self._file, self._seconds = Path(command[0]).name, file, seconds
        with contextlib.ExitStack() as files:
            self._printed = files.enter_context(tempfile.TemporaryFile())
            self._problems = files.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=self._printed, stderr=self._problems,
                cwd=cwd,
            )  # fmt: skip
            self._files = files.pop_all()
        limits = {
            resource.RLIMIT_AS: MEMORY,
            resource.RLIMIT_FSIZE: PRINTED,
            resource.RLIMIT_CPU: 2 * int(seconds),  # in case taupy is killed before the tool ends
        }
        for limit, most in limits.items():
            with contextlib.suppress(OSError, ValueError):
                resource.prlimit(self._process.pid, limit, (most, most))
        self._late = threading.Event()
        self._timer = threading.Timer(seconds, self._stop)
        self._timer.daemon = True
        self._timer.start()

    def output(self) -> IO[bytes]:
        """All its output, once it has ended.

        Raises:
            ToolError: the tool fails or exceeds its limits.
            NoCodeError: the file contains no GPU code.
        """
        if self._process.wait():
            reason = self._reason()
            if _NO_CODE in reason:
                raise NoCodeError(f"{self._file} contains no GPU code")
            raise ToolError(f"{self._file}: {self._name} cannot read it: {reason}")
        self._printed.seek(0)
        return self._printed

    def _stop(self) -> None:
        self._late.set()
        self._process.kill()

    def _reason(self) -> str:
        if self._late.is_set():
            return f"took longer than {self._seconds:.0f} s"
        if self._process.returncode == -signal.SIGXFSZ:
            return f"prints more than {PRINTED >> 20} MiB"
        self._problems.seek(0)
        reason = _why(self._problems.read())
        if not reason and self._process.returncode < 0:
            return f"it was ended by {signal.Signals(-self._process.returncode).name}"
        return reason or "no reason given"

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._process.kill()
        self._process.wait()
        self._files.close()


_COMPLAINT = re.compile(r"\w+ (?:.*, (line \d+)\s*; )?(?:fatal|[Ee]rror|info)\s*: (.*)")


def _why(text: bytes) -> str:
    """The most informative line: the first error, otherwise the last line that is not a warning."""
    lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if "warning" not in line.lower()] or lines
    for line in telling:
        if match := _COMPLAINT.fullmatch(line):
            place, problem = match.groups()
            return f"{place}: {problem}" if place else problem
    return telling[-1] if telling else ""


def text(command: Sequence[str], file: Path, cwd: str | None = None) -> str:
    """All the output of a tool."""
    with Run(command, file, cwd) as run:
        return run.output().read().decode("utf-8", "replace")


def _text(command: Sequence[str]) -> str:
    return text(command, Path(command[0]))
