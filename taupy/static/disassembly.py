"""Turn the functions of a cubin into records, part by part.

The tools start when a part is created, not when it is read, so that one part can be listed while
another is read.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from taupy.model.kernel_code import LEFT_TO_THE_LAUNCH, KernelCode
from taupy.static import facts, listing, notes, tools
from taupy.static.elf import Cubin, Function
from taupy.static.facts import Live, Resources
from taupy.static.kernel import Circumstances, kernel
from taupy.static.listing import Listed
from taupy.static.tools import Run, Tools

PART_BYTES = 2 << 20
"""Maximum machine code that nvdisasm lists at a time: it needs some 60 times as much memory."""

PARTS_AT_MOST = 20
"""Maximum number of parts of a cubin, unless it has very many functions: nvdisasm reads the whole
cubin for each part, which needs 3.3 times its size in memory and takes as long as listing a
hundredth of it."""

PART_FUNCTIONS = 4000
"""Maximum functions that nvdisasm lists at a time: its command line has the number of each."""

MOST_LIVE_BYTES = 16 << 20
"""Maximum size of cubins for which live registers are requested, which takes as long as the
listing."""


@dataclass(frozen=True)
class Module:
    """A cubin, and what applies to all its functions.

    Attributes:
        shown: the file it was found in.
        digest: its SHA-256.
        usage: name of a function -> its resources.
        symbols: section -> name -> offset of each function in it.
        noted: dynamic shared memory, according to the notes beside it.
    """

    cubin: Cubin
    shown: str
    tools: Tools
    digest: str
    usage: Mapping[str, Resources]
    symbols: Mapping[str, Mapping[str, int]]
    noted: int | None

    @classmethod
    def of(cls, cubin: Cubin, shown: str, toolset: Tools) -> Module:
        """Raises:
        ToolError: cuobjdump cannot read it.
        """
        with cubin.path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        usage = tools.text([str(toolset.cuobjdump), "-res-usage", str(cubin.path)], cubin.path)
        symbols: dict[str, dict[str, int]] = {}
        for function in cubin.functions:
            symbols.setdefault(function.section, {})[function.name] = function.offset
        noted = notes.dynamic_shared(cubin.path)
        return cls(
            cubin,
            shown,
            toolset,
            digest=digest,
            usage=facts.resources(usage),
            symbols=symbols,
            noted=noted,
        )


class Part:
    """Functions of a module that nvdisasm lists together. Must be closed.

    Attributes:
        functions: their number; nvdisasm lists only one of several with the same name.
    """

    def __init__(self, module: Module, functions: Sequence[Function], sources: bool) -> None:
        self._module = module
        self._by_name = {function.name: function for function in functions}
        self.functions = len(functions)
        self._only = ",".join(str(function.number) for function in functions)
        self._runs = contextlib.ExitStack()
        with contextlib.ExitStack() as runs:
            self._live = self._lines = None
            if module.cubin.path.stat().st_size <= MOST_LIVE_BYTES:
                self._live = runs.enter_context(self._run("-c", "-lrm", "count"))
            if sources and module.cubin.has_lines:
                self._lines = runs.enter_context(self._run("-c", "-g"))
            annotate = ["-annotate"] if module.tools.annotates else []
            self._listing = runs.enter_context(self._run("-json", *annotate))
            self._runs = runs.pop_all()

    def _run(self, *options: str) -> Run:
        path = self._module.cubin.path
        return Run(
            [str(self._module.tools.nvdisasm), *options, "-fun", self._only, str(path)], path
        )

    def records(self) -> Iterator[KernelCode]:
        """The records of its functions, once the tools have ended.

        Raises:
            FormatError: the listing is truncated.
            ToolError: a tool fails.
        """
        module, header = self._module, Listed()
        live = self._live_registers()
        lines = facts.source_lines(self._lines.output()) if self._lines else {}
        for listed in listing.functions(self._listing.output(), header):
            symbol = self._by_name.get(listed.name)
            if symbol is None:
                continue
            limits = module.cubin.launches.get(listed.name, LEFT_TO_THE_LAUNCH)
            yield kernel(
                listed,
                Circumstances(
                    module=module.digest,
                    file=module.shown,
                    chip=module.cubin.chip,
                    compiler=header.compiler,
                    resources=module.usage.get(listed.name),
                    live=live.get(listed.name),
                    symbols=module.symbols[symbol.section],
                    lines=lines.get(listed.name, {}),
                    launch=limits._replace(dynamic_shared=module.noted),
                    is_kernel=symbol.kernel,
                ),
            )

    def _live_registers(self) -> dict[str, Live]:
        """Live registers by function; empty where nvdisasm cannot follow the cubin's data flow, as
        for code that CUDA 12 compiled for chips before 10.0."""
        try:
            return facts.live(self._live.output()) if self._live else {}
        except tools.ToolError:
            return {}

    def close(self) -> None:
        """End its tools."""
        self._runs.close()


def parts(functions: Sequence[Function], cubin_bytes: int) -> Iterator[list[Function]]:
    """Split functions into parts whose code is not too large."""
    most_bytes = max(PART_BYTES, cubin_bytes // PARTS_AT_MOST)
    part: list[Function] = []
    size = 0
    for function in functions:
        full = size + function.code_bytes > most_bytes or len(part) == PART_FUNCTIONS
        if part and full:
            yield part
            part, size = [], 0
        part.append(function)
        size += function.code_bytes
    yield part
