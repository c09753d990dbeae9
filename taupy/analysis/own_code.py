"""Which routines are the program's own: what follows from the paths recorded with them.

Own is code in a file that belongs neither to the standard library nor to an installed package; the
text of `-c`, of standard input and of a notebook's cell; and the whole package if the program is
itself an installed one. Nothing is looked up on the disk: the trial may come from elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from taupy.dataclass import dataclass
from taupy.model.metric import ROOT_TIMER
from taupy.model.names import is_library
from taupy.model.rows import TimerRow
from taupy.model.timer_columns import TimerColumns
from taupy.pattern import pattern

_CELL = "<ipython-input"
_PICKLED = "<dynamic-code>"
"""cloudpickle's name for the file of functions of `__main__`, which joblib, Dask and Ray send."""
_COMPILED = pattern(r"c[a-z2-7]{51}\.py")
"""Name of a file that torch.compile has written, wherever: a hash of its text."""
_COMPILED_LENGTH = 55
_METHOD = pattern(r"__\w+__")
_ATTRS = pattern(r"<attrs generated \w+ (?:.*\.)?(\w+)>")
_RUNNERS = ("<frozen runpy>", "runpy.py")
_PARTS = pattern(r"(?:^|\.)(?:<locals>\.)?<(?:genexpr|listcomp|setcomp|dictcomp)>$")
_SHORTENED = pattern(
    r"(torch|torchvision|torchaudio|numpy|pandas|scipy|sklearn|jax|jaxlib|flax|tensorflow|keras"
    r"|transformers|lightning|pytorch_lightning|accelerate|datasets|triton|matplotlib|PIL"
    r"|asyncio|multiprocessing|concurrent|importlib|logging|json|unittest|xml|http|email)/"
)
"""Libraries' files in profiles of other tools that do not tell where they lie."""
_SINGLE = frozenset({*sys.stdlib_module_names, "six", "typing_extensions"})
"""Modules without a folder that no program has of its own: there, their path is `inspect.py`."""
_PACKAGE = pattern(
    r"^(.*/(?:site-packages|dist-packages|lib(?:64)?/python\d+(?:\.\d+t?)?)/)([^/]+)"
)


@dataclass(frozen=True, slots=True)
class Extent:
    """What belongs to a program besides files outside of libraries.

    Attributes:
        files: those that begin the program, among them `<string>` and `<stdin>`.
        packages: path prefixes of installed packages.
        everything: all routines, for lack of a better answer.
    """

    files: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()
    everything: bool = False


def _is_generated(path: str) -> bool:
    name = path.rpartition("/")[2]
    is_compiled = len(name) == _COMPILED_LENGTH and _COMPILED.fullmatch(name)
    return name == "ipykernel_launcher.py" or bool(is_compiled)


def is_own(path: str | None, extent: Extent, timer: TimerRow | None = None) -> bool:
    """Whether a routine with this path is the program's own."""
    if extent.everything:
        groups = "" if timer is None else timer.groups
        return "IMPORT" not in groups.split("|") and "TAUPY" not in groups.split("|")
    if path is None:
        return False
    if path.startswith("<"):
        if timer is not None and generated_for(timer) is not None:
            return False
        return path.startswith((_CELL, _PICKLED)) or (path in extent.files and not is_library(path))
    if not is_library(path, "" if timer is None else timer.groups):
        is_shortened = path[:1] != "/" and (
            path.removesuffix(".py") in _SINGLE or bool(_SHORTENED.match(path))
        )
        return not (is_shortened or _is_generated(path))
    package = package_of(path, timer) if extent.packages else None
    return package is not None and package in extent.packages


def own_ones(timers: Sequence[TimerRow], paths: Sequence[str | None], extent: Extent) -> list[bool]:
    """Whether each timer is the program's own; asked once for routines of one file, of which there
    may be hundreds of thousands."""
    columns = TimerColumns.of(timers)
    files = [*zip(paths, columns.files, columns.groups, strict=True)]
    one_of = dict(zip(files, range(len(files)), strict=True))
    generated = {file for file in one_of if (file[0] or "").startswith("<")}
    of_files = {
        file: file not in generated and is_own(file[0], extent, timers[code])
        for file, code in one_of.items()
    }
    own = [*map(of_files.__getitem__, files)]
    for code in [code for code, file in enumerate(files if generated else ()) if file in generated]:
        own[code] = is_own(paths[code], extent, timers[code])  # there, its name matters
    for code in [code for code, name in enumerate(columns.names) if name == ROOT_TIMER]:
        own[code] = False
    return own


def package_of(path: str | None, timer: TimerRow | None = None) -> str | None:
    """The folder of the installed package that a file belongs to, or the file of a module without
    a folder; None if it is no library's."""
    if path is None:
        return None
    if folder := _PACKAGE.match(path):
        return folder[0]
    file = "" if timer is None or not is_library("", timer.groups) else timer.file or ""
    rest = file.partition("/")[2]
    return path.removesuffix(f"/{rest}") if file else None


def generated_for(timer: TimerRow) -> str | None:
    """The name of a method that a library has made while the program ran, with its class if the
    file says so: `__init__` of a data class, `Point.__eq__` of attrs. None: it is none."""
    name = timer.short_name.rpartition("<locals>.")[2]
    if not (timer.file or "").startswith("<") or _METHOD.fullmatch(name) is None:
        return None
    of_class = _ATTRS.match(timer.file or "")
    return f"{of_class[1]}.{name}" if of_class else name


def package_name(path: str | None, timer: TimerRow) -> str | None:
    """What people call the library that a routine belongs to: `pytest` also of `_pytest`; None of C
    functions and of code that is generated while a program runs."""
    file = timer.file or ""
    if not file or file.startswith("<"):
        return None
    folder = package_of(path, timer) or file.partition("/")[0] or file
    return folder.rpartition("/")[2].removesuffix(".py").lstrip("_") or None


def is_program(caller: TimerRow) -> bool:
    """Whether a module that this timer calls is the one with which the program began."""
    return caller.timer == ROOT_TIMER or (
        caller.file in _RUNNERS and caller.short_name in ("_run_code", "run_path", "run_module")
    )


def owners(timers: Sequence[TimerRow], own: Sequence[bool]) -> list[int]:
    """For each timer the one whose time it is: comprehensions and generator expressions are lines
    of the routine around them."""
    around: dict[int, tuple[str | None, str]] = {}
    columns = TimerColumns.of(timers)
    names = columns.short_names
    for code in [code for code, name in enumerate(names) if name[-1:] == ">" and own[code]]:
        name = names[code]
        while (shorter := _PARTS.sub("", name)) != name:
            name = shorter
        if name != names[code]:
            around[code] = columns.files[code], name or "<module>"
    owner = list(range(len(timers)))
    if not around:
        return owner
    definitions: dict[tuple[str | None, str], list[tuple[int, int]]] = {
        routine: [] for routine in around.values()
    }
    for code, routine in enumerate(zip(columns.files, names, strict=True)):
        lines = definitions.get(routine) if own[code] else None
        if lines is not None:
            lines.append((columns.lines[code] or 0, code))
    for code, routine in around.items():
        line = columns.lines[code] or 0
        # The last one that begins at or before it.
        before = (pair for pair in definitions[routine] if pair[0] <= line)
        owner[code] = max(before, default=(0, code))[1]
    return owner
