"""NVIDIA's command line tools: where they are, what they know, and running them within limits.

The disassembler reads files of any origin, so it runs in a process of its own with a limit of
memory and time; what it prints is read as it comes.
"""

from __future__ import annotations

import contextlib
import re
import resource
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

from taupy.cuda import libraries
from taupy.errors import FormatError, TaupyError

SECONDS = 600.0
MEMORY = 12 << 30
"""Limits of one run of a tool; memory as address space, in bytes."""

_MISSING = (
    "there is no {} on this machine: pip install 'taupy-profiler[static]', or put CUDA's bin "
    "folder on PATH (Triton brings it along, too)"
)


class ToolError(FormatError):
    """A tool refuses a file, or runs past its limits."""


@dataclass(frozen=True)
class Tools:
    """Attributes:
    nvdisasm, cuobjdump, ptxas: their files; None where there is none.
    """

    nvdisasm: Path
    cuobjdump: Path
    ptxas: Path | None

    @cached_property
    def _help(self) -> str:
        return _text([str(self.nvdisasm), "--help"])

    @cached_property
    def chips(self) -> frozenset[str]:
        """Compute capabilities that nvdisasm knows: "9.0"."""
        chips = re.findall(r"'SM(\d+)(\d)[af]?'", self._help)
        return frozenset(f"{major}.{minor}" for major, minor in chips)

    @cached_property
    def annotates(self) -> bool:
        """Does nvdisasm tell which instructions are spills?"""
        return "--annotate" in self._help

    @cached_property
    def version(self) -> str:
        """As NVIDIA writes it: "13.5.37"."""
        match = re.search(r"\bV(\d[\d.]+)", _text([str(self.nvdisasm), "--version"]))
        return match[1] if match else "unknown"


def find() -> Tools:
    """The tools of this environment, else of the machine.

    Raises:
        TaupyError: nvdisasm or cuobjdump is missing; says how to get it.
    """
    paths = {name: next(libraries.programs(name), None) for name in ("nvdisasm", "cuobjdump")}
    for name, path in paths.items():
        if path is None:
            raise TaupyError(_MISSING.format(name))
    assert paths["nvdisasm"] and paths["cuobjdump"]
    return Tools(paths["nvdisasm"], paths["cuobjdump"], next(libraries.programs("ptxas"), None))


@contextlib.contextmanager
def output(
    command: Sequence[str], file: Path, cwd: str | None = None, seconds: float = SECONDS
) -> Iterator[IO[bytes]]:
    """What a tool prints, while it prints it.

    Args:
        file: what the tool reads, for messages.

    Raises:
        ToolError: the tool fails or runs past its limits; at the end of the block.
    """
    late = threading.Event()
    with tempfile.TemporaryFile() as problems:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=problems, cwd=cwd
        )
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            assert process.stdout is not None
            yield process.stdout
            process.stdout.read()
            process.wait()
        finally:
            timer.cancel()
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        if process.returncode:
            problems.seek(0)
            why = f"took longer than {seconds:.0f} s" if late.is_set() else _why(problems.read())
            name = Path(command[0]).name
            raise ToolError(f"{file}: {name} cannot read it: {why or 'no reason given'}")


def _why(text: bytes) -> str:
    """The line that says most: the last that is no warning, without the tool's name."""
    lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if "warning" not in line] or lines
    return re.sub(r"^\w+ (fatal|error|info)\s*: ", "", telling[-1]) if telling else ""


def text(command: Sequence[str], file: Path, cwd: str | None = None) -> str:
    """All that a tool prints."""
    with output(command, file, cwd) as stream:
        return stream.read().decode("utf-8", "replace")


def _text(command: Sequence[str]) -> str:
    return text(command, Path(command[0]))
