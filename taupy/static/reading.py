"""Files with GPU code to records of their kernels, one after another.

What nvdisasm lists is read function by function, and a large cubin is listed in parts, so memory
is bounded by the largest function and not by the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from taupy.errors import FormatError
from taupy.model.kernel_code import LEFT_TO_THE_LAUNCH, KernelCode
from taupy.static import elf, facts, listing, notes, tools
from taupy.static.elf import Cubin, Function
from taupy.static.kernel import Circumstances, kernel
from taupy.static.listing import Listed
from taupy.static.tools import Tools

PART_BYTES = 2 << 20
"""Machine code that nvdisasm lists at a time: it needs some 60 times that."""

PARTS_AT_MOST = 20
"""Of a cubin, unless functions are many: nvdisasm reads all of it each time, which needs 3.3 times
its size and takes as long as listing a hundredth of it."""

PART_FUNCTIONS = 4000
"""Functions that nvdisasm lists at a time: its command line names each by number."""

MOST_LIVE_BYTES = 16 << 20
"""Live registers are asked for in cubins up to this size: it takes as long as the listing."""

_IN_FOLDERS = (".cubin", ".fatbin", ".so")

Progress = Callable[[int, int, str], None]
"""Called with kernels done, kernels known of so far, and where they are."""


@dataclass
class Request:
    """What is to be read.

    Attributes:
        chips: compute capabilities, such as "9.0"; empty for all.
        names: takes a kernel's name as the code spells it.
        sources: ask for source lines, too.
        functions: also those that kernels call by address and that cannot be launched.
    """

    chips: Collection[str] = ()
    names: Callable[[str], bool] | None = None
    sources: bool = False
    functions: bool = False
    progress: Progress | None = None
    remarks: list[str] = field(default_factory=list)


def kernels(files: Sequence[str], request: Request, toolset: Tools | None = None) -> Iterator[
    KernelCode
]:  # fmt: skip
    """The kernels of files and folders. `request.remarks` is filled as they are read.

    Raises:
        FormatError: a file holds no GPU code, is damaged, or is for chips that the tool does not
            know.
        TaupyError: the tools are missing.
    """
    toolset = toolset or tools.find()
    done = 0
    for given in files:
        before = done
        for path in _files(Path(given)):
            for code in _of_file(path, str(path), request, toolset):
                done += 1
                if request.progress:
                    request.progress(done, done, str(path))
                yield code
        if done == before:
            wanted = f" for {', '.join(request.chips)}" if request.chips else ""
            name = " of that name" if request.names else ""
            raise FormatError(f"{given} holds no GPU kernel{wanted}{name}")


def _files(path: Path) -> Iterator[Path]:
    """A file itself; of a folder, such as Triton's cache, the files with code in it."""
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


def _of_file(path: Path, shown: str, request: Request, toolset: Tools) -> Iterator[KernelCode]:
    kind = elf.kind(path)
    if kind == "cubin":
        yield from _of_cubin(path, shown, request, toolset)
    elif kind == "ptx":
        with _assembled(path, toolset) as cubin:
            yield from _of_cubin(cubin, shown, request, toolset)
    elif kind is not None:
        with tempfile.TemporaryDirectory(prefix="taupy-static-") as folder:
            yield from _extracted(path, folder, shown, request, toolset)
    else:
        raise FormatError(
            f"{path} is not a cubin, fatbin, library, program or PTX file; "
            "taupy static reads these, and folders of them"
        )


def _extracted(
    path: Path, folder: str, shown: str, request: Request, toolset: Tools
) -> Iterator[KernelCode]:
    command = [str(toolset.cuobjdump), "-xelf", "all", str(path.resolve())]
    with tools.output(command, path, cwd=folder) as stream:
        for _ in stream:
            pass
    for cubin in sorted(
        Path(folder).iterdir(), key=lambda cubin_file: (len(cubin_file.name), cubin_file.name)
    ):
        yield from _of_cubin(cubin, shown, request, toolset)
        cubin.unlink()


@contextlib.contextmanager
def _assembled(path: Path, toolset: Tools) -> Iterator[Path]:
    """A cubin made of PTX for the chip that it names."""
    if toolset.ptxas is None:
        raise FormatError(
            f"{path} is PTX, which ptxas makes code of; there is none: pip install nvidia-cuda-nvcc"
        )
    import re

    target = re.search(rb"\.target\s+(sm_\w+)", path.read_bytes())
    with tempfile.TemporaryDirectory(prefix="taupy-static-") as folder:
        cubin = Path(folder, path.stem + ".cubin")
        chip = target[1].decode() if target else "sm_80"
        tools.text([str(toolset.ptxas), f"-arch={chip}", "-o", str(cubin), str(path)], path)
        yield cubin


def _of_cubin(path: Path, shown: str, request: Request, toolset: Tools) -> Iterator[KernelCode]:
    try:
        cubin = elf.read(path)
    except FormatError as problem:
        text = str(problem)
        raise FormatError(text if str(path) in text else f"{shown}: {text}") from None
    if request.chips and cubin.chip not in request.chips:
        return
    if cubin.chip not in toolset.chips:
        remark = (
            f"{shown}: code for compute capability {cubin.chip} is left out: nvdisasm "
            f"{toolset.version} knows {', '.join(sorted(toolset.chips, key=float))}"
        )
        if path == Path(shown):
            raise FormatError(remark.replace("is left out", "cannot be read"))
        if remark not in request.remarks:
            request.remarks.append(remark)
        return
    wanted = [
        function
        for function in (cubin.bodies if request.functions else cubin.kernels)
        if not request.names or request.names(function.name)
    ]
    if not wanted:
        return
    try:
        yield from _of_kernels(cubin, wanted, shown, request, toolset)
    except FormatError as problem:
        # What was taken out of a library lay in a folder that is gone.
        within = shown if path == Path(shown) else f"{path.name} of {shown}"
        raise type(problem)(str(problem).replace(str(path), within)) from None


def _of_kernels(
    cubin: Cubin, wanted: Sequence[Function], shown: str, request: Request, toolset: Tools
) -> Iterator[KernelCode]:
    module = hashlib.sha256(cubin.path.read_bytes()).hexdigest()
    usage = facts.resources(
        tools.text([str(toolset.cuobjdump), "-res-usage", str(cubin.path)], cubin.path)
    )
    symbols: dict[str, dict[str, int]] = {}
    for function in cubin.functions:
        symbols.setdefault(function.section, {})[function.name] = function.offset
    wanted_by_name = {function.name: function for function in wanted}
    noted = notes.dynamic_shared(cubin.path)
    for part in _parts(wanted, max(PART_BYTES, cubin.path.stat().st_size // PARTS_AT_MOST)):
        live = _live(cubin, part, toolset)
        lines = _lines(cubin, part, toolset) if request.sources and cubin.has_lines else {}
        told = Listed()
        command = [str(toolset.nvdisasm), "-json", *(["-annotate"] if toolset.annotates else [])]
        with tools.output([*command, *_only(part), str(cubin.path)], cubin.path) as stream:
            for listed in listing.functions(stream, told):
                symbol = wanted_by_name.get(listed.name)
                if symbol is None:
                    continue
                limits = cubin.launches.get(listed.name, LEFT_TO_THE_LAUNCH)
                yield kernel(
                    listed,
                    Circumstances(
                        module=module,
                        file=shown,
                        chip=cubin.chip,
                        compiler=told.compiler,
                        resources=usage.get(listed.name),
                        live=live.get(listed.name),
                        symbols=symbols[symbol.section],
                        lines=lines.get(listed.name, {}),
                        launch=limits._replace(dynamic_shared=noted),
                        is_kernel=symbol.kernel,
                    ),
                )


def _parts(wanted: Sequence[Function], most_bytes: int) -> Iterator[list[Function]]:
    """Kernels in parts whose code is not too large."""
    part: list[Function] = []
    size = 0
    for function in wanted:
        full = size + function.code_bytes > most_bytes or len(part) == PART_FUNCTIONS
        if part and full:
            yield part
            part, size = [], 0
        part.append(function)
        size += function.code_bytes
    yield part


def _only(part: Sequence[Function]) -> list[str]:
    return ["-fun", ",".join(str(function.number) for function in part)]


def _live(cubin: Cubin, part: Sequence[Function], toolset: Tools) -> dict[str, facts.Live]:
    """Live registers; empty where nvdisasm cannot follow this cubin's data flow, as with what
    CUDA 12 compiled for chips before 10.0."""
    if cubin.path.stat().st_size > MOST_LIVE_BYTES:
        return {}
    command = [str(toolset.nvdisasm), "-c", "-lrm", "count", *_only(part), str(cubin.path)]
    try:
        with tools.output(command, cubin.path) as stream:
            return facts.live(stream)
    except tools.ToolError:
        return {}


def _lines(
    cubin: Cubin, part: Sequence[Function], toolset: Tools
) -> dict[str, dict[int, str]]:  # fmt: skip
    command = [str(toolset.nvdisasm), "-c", "-g", *_only(part), str(cubin.path)]
    with tools.output(command, cubin.path) as stream:
        return facts.source_lines(stream)
