"""Turn files with GPU code into records of their kernels, one after another.

Listings from nvdisasm are read function by function, and a large cubin is listed in parts, so
memory is bounded by the largest function, not by the file. While one part is read, the tools list
the next.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from taupy.errors import FormatError
from taupy.model.kernel_code import KernelCode
from taupy.static import elf, tools
from taupy.static.disassembly import Module, Part, parts
from taupy.static.elf import Cubin, Function
from taupy.static.tools import NoCodeError, Tools
from taupy.units import several

_IN_FOLDERS = (".cubin", ".fatbin", ".so")


@dataclass
class Request:
    """What to read.

    Attributes:
        chips: compute capabilities, such as "9.0"; empty for all.
        names: decides whether to read a kernel, given its name as spelled in the code.
        sources: whether to include source lines.
        functions: whether to include functions that cannot be launched and that kernels call by
            address.
        advance: called with the number of further bytes of the files that are done.
    """

    chips: Collection[str] = ()
    names: Callable[[str], bool] | None = None
    sources: bool = False
    functions: bool = False
    advance: Callable[[int], None] = lambda _: None
    remarks: list[str] = field(default_factory=list)


def kernels(files: Sequence[str], request: Request, toolset: Tools | None = None) -> Iterator[
    KernelCode
]:  # fmt: skip
    """The kernels of files and folders. `request.remarks` is filled in as they are read.

    An unreadable file in a folder becomes a remark, unless all of them are unreadable; so does an
    unreadable cubin in a file of several.

    Raises:
        FormatError: a given file contains no GPU code, is damaged, or is for chips that the tool
            does not know; or no file in a given folder is readable.
        TaupyError: the tools are missing.
    """
    toolset = toolset or tools.find()
    for given in files:
        count = 0
        problems: list[FormatError] = []
        for path in _files(Path(given)):
            before = count
            try:
                for code in _of_file(path, request, toolset):
                    count += 1
                    yield code
            except FormatError as problem:
                # Beside the kernels, Triton and Inductor keep libraries that only launch them.
                if isinstance(problem, NoCodeError) and _may_lack_code(path, given):
                    continue
                if path == Path(given):
                    raise
                problems.append(problem)
                read = count - before
                request.remarks.append(
                    f"omitted: {problem}" + (f"; {several(read, 'kernel')} read" if read else "")
                )
        if not count and problems:
            raise problems[0]
        if not count:
            wanted = f" for {', '.join(request.chips)}" if request.chips else ""
            name = " of that name" if request.names else ""
            raise FormatError(f"{given} holds no GPU kernel{wanted}{name}")


def _may_lack_code(path: Path, given: str) -> bool:
    return path != Path(given) and elf.kind(path) == "library"


def size(files: Sequence[str]) -> int:
    """Bytes of all files that `kernels` reads, as `Request.advance` counts them."""
    return sum(path.stat().st_size for file in map(Path, files) if file.exists()
               for path in _files(file))  # fmt: skip


def _files(path: Path) -> Iterator[Path]:
    """The file itself; for a folder, such as Triton's cache, the files in it with code."""
    if not path.exists():
        raise FormatError(f"there is no file {path}")
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            if name.endswith(_IN_FOLDERS):
                yield Path(folder, name)


def _of_file(path: Path, request: Request, toolset: Tools) -> Iterator[KernelCode]:
    """The kernels of one file; of several cubins those that cannot be read become remarks.

    Raises:
        FormatError: the file cannot be read, or none of its cubins.
    """
    problems: dict[Path, FormatError] = {}
    count = 0
    with _cubins(path, toolset) as cubins:
        scale = path.stat().st_size / (sum(cubin.stat().st_size for cubin in cubins) or 1)
        places = (_Place(path, cubin, scale) for cubin in cubins)
        begun = (
            start for place in places for start in _of_cubin(place, request, toolset, problems)
        )
        with contextlib.closing(_started_ahead(begun)) as ready:
            for part, place, share in ready:
                left = part.functions
                with place.noted(problems):
                    for code in part.records():
                        left -= 1
                        request.advance(share)
                        count += 1
                        yield code
                request.advance(left * share)
        for problem in problems.values():
            if len(cubins) == 1 or not count:
                raise problem
            request.remarks.append(f"omitted: {problem}")


class _Begun(NamedTuple):
    """A part whose tools are running; `share`: bytes of the given file per function."""

    part: Part
    place: _Place
    share: int


def _started_ahead(begun: Iterator[_Begun]) -> Generator[_Begun]:
    """Each part, yielded once the next has begun."""
    waiting: deque[_Begun] = deque()
    try:
        for part in begun:
            waiting.append(part)
            if len(waiting) > 1:
                yield waiting[0]
                waiting.popleft().part.close()
        yield from waiting
    finally:
        for left in waiting:
            left.part.close()


@contextlib.contextmanager
def _cubins(path: Path, toolset: Tools) -> Iterator[list[Path]]:
    """The cubin itself; a cubin assembled from PTX; or all cubins that cuobjdump extracts from any
    other file, assembled from its PTX if it contains no cubins."""
    kind = elf.kind(path)
    if kind is None:
        raise FormatError(
            f"{path} is not a cubin, fatbin, library, program or PTX file; "
            "taupy static reads these, and folders of them"
        )
    if kind == "cubin":
        yield [path]
        return
    with tempfile.TemporaryDirectory(prefix="taupy-static-") as folder:
        if kind == "ptx":
            yield [_assembled(path, Path(folder), toolset)]
            return
        cubins = _extracted(path, "-xelf", Path(folder), toolset)
        if not cubins:
            for ptx in _extracted(path, "-xptx", Path(folder), toolset):
                with _Place(path, ptx, 1.0).named():
                    cubins.append(_assembled(ptx, Path(folder), toolset))
        yield cubins


def _extracted(path: Path, option: str, folder: Path, toolset: Tools) -> list[Path]:
    """The files that cuobjdump extracts from a file, in the order of its numbering."""
    command = [str(toolset.cuobjdump), option, "all", str(path.resolve())]
    with tools.Run(command, path, cwd=str(folder)) as run:
        run.output()
    return sorted(folder.iterdir(), key=lambda taken: (len(taken.name), taken.name))


def _assembled(path: Path, folder: Path, toolset: Tools) -> Path:
    """A cubin assembled from PTX for the chip it names."""
    if toolset.ptxas is None:
        raise FormatError(
            f"{path} is PTX, which ptxas makes code of; there is none: pip install nvidia-cuda-nvcc"
        )
    target = re.search(rb"\.target\s+(sm_\w+)", path.read_bytes())
    chip = target[1].decode() if target else "sm_80"
    cubin = folder / f"{path.stem}.cubin"
    tools.text([str(toolset.ptxas), f"-arch={chip}", "-o", str(cubin), str(path)], path)
    return cubin


@dataclass(frozen=True)
class _Place:
    """Where a cubin was found.

    Attributes:
        given: the file to be read.
        cubin: the cubin that it contains, or that was assembled from it.
        scale: bytes of the given file per byte of the cubin.
    """

    given: Path
    cubin: Path
    scale: float

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Name the given file in errors, because its cubins are in a temporary folder."""
        try:
            yield
        except FormatError as problem:
            message = str(problem)
            if self.cubin != self.given:
                message = message.replace(str(self.cubin), f"{self.cubin.name} of {self.given}")
            if str(self.given) not in message:
                message = f"{self.given}: {message}"
            raise type(problem)(message) from None

    @contextlib.contextmanager
    def noted(self, problems: dict[Path, FormatError]) -> Iterator[None]:
        """Keep the first error of the cubin in `problems`."""
        try:
            with self.named():
                yield
        except FormatError as problem:
            problems.setdefault(self.cubin, problem)


def _of_cubin(
    place: _Place, request: Request, toolset: Tools, problems: dict[Path, FormatError]
) -> Iterator[_Begun]:
    with place.noted(problems):
        yield from _begun(place, request, toolset)


def _begun(place: _Place, request: Request, toolset: Tools) -> Iterator[_Begun]:
    cubin = elf.read(place.cubin)
    size = place.scale * place.cubin.stat().st_size
    wanted = _wanted(cubin, place, request, toolset)
    if not wanted:
        request.advance(int(size))
        return
    module = Module.of(cubin, str(place.given), toolset)
    for functions in parts(wanted, place.cubin.stat().st_size):
        part = Part(module, functions, request.sources)
        yield _Begun(part, place, int(size / len(wanted)))


def _wanted(
    cubin: Cubin, place: _Place, request: Request, toolset: Tools
) -> list[Function]:  # fmt: skip
    """The functions to read.

    Raises:
        FormatError: the tool does not know the chip of a cubin that was given directly.
    """
    if request.chips and cubin.chip not in request.chips:
        return []
    if cubin.chip not in toolset.chips:
        remark = (
            f"{place.given}: code for compute capability {cubin.chip} is left out: nvdisasm "
            f"{toolset.version} knows {', '.join(sorted(toolset.chips, key=float))}"
        )
        if place.cubin == place.given:
            raise FormatError(remark.replace("is left out", "cannot be read"))
        if remark not in request.remarks:
            request.remarks.append(remark)
        return []
    return [
        function
        for function in (cubin.bodies if request.functions else cubin.kernels)
        if not request.names or request.names(function.name)
    ]
