"""Imports of taupy's own modules in a fifth of the time, for processes that a prompt waits for.

For a small program, a run's launcher and its storer mostly import, as does a command that reads a
small trial: some 100 modules of taupy each, and `importlib` takes 300,000 instructions for each
before its first line, a hundredth of an interpreter's start. It asks finders, lists folders, tries
suffixes and takes locks. Here a module's bytecode is read from where the interpreter has put it and
is run. What is not so simple (bytecode that is missing or older than its source, compiled modules,
errors) is left to `importlib`.

It is not for commands with threads that import modules of taupy: nothing waits for one that
another thread is importing.
"""

from __future__ import annotations

import _frozen_importlib_external as external
import _imp
import builtins
import marshal
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType, ModuleType
    from typing import Any

_taupy: Any = sys.modules["taupy"]
_HOME, _, _ENDING = str(_taupy.__spec__.cached).rpartition("/__init__")
"""The folder of this package's bytecode, and what follows a module's name there."""
_BY_TIME = external.MAGIC_NUMBER + b"\0\0\0\0"
"""Bytecode that is valid as long as its source has the same time and size begins so (PEP 552)."""

_import = builtins.__import__


def begin() -> None:
    """Import taupy's modules so from now on."""
    if f"{_taupy.__path__[0]}/__pycache__" == _HOME:
        builtins.__import__ = _import_ours


def _import_ours(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    if name[:6] in ("taupy.", "taupy") and not level and _is_here(name) and fromlist:
        module = sys.modules[name]
        if not hasattr(module, "__path__"):
            return module
        if all([hasattr(module, part) or _is_here(f"{name}.{part}") for part in fromlist]):
            return module
    return _import(name, globals, locals, fromlist or (), level)


def _is_here(name: str) -> bool:
    """Whether a module is imported, as it is now if that is simple."""
    if name in sys.modules:
        return True
    above, _, last = name.rpartition(".")
    if not above or not _is_here(above):
        return False
    package = sys.modules[above]
    folders = getattr(package, "__path__", None)
    if folders is None:
        return False
    folder = f"{folders[0]}/"
    path = f"{folder}{last}.py"
    code = _code(path, f"{folder}__pycache__/{last}{_ENDING}")
    inside = None
    if code is None:
        inside = f"{folder}{last}"
        path = f"{inside}/__init__.py"
        code = _code(path, f"{inside}/__pycache__/__init__{_ENDING}")
        if code is None:
            return False
    spec = _taupy.__spec__
    loader = type(spec.loader)(name, path)
    spec = type(spec)(name, loader, origin=path, is_package=inside is not None)
    spec.has_location = True
    module = type(_taupy)(name)
    module.__spec__, module.__loader__, module.__file__ = spec, loader, path
    module.__package__ = above
    if inside is not None:
        module.__package__ = name
        module.__path__ = spec.submodule_search_locations = [inside]
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    setattr(package, last, module)
    return True


def _code(path: str, cached: str) -> CodeType | None:
    """The code of a module; None if its bytecode is not there or not valid."""
    try:
        source = posix.stat(path)
        descriptor = posix.open(cached, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            content = posix.read(descriptor, posix.fstat(descriptor).st_size)
        finally:
            posix.close(descriptor)
    except OSError:
        return None
    valid = int(source.st_mtime) & 0xFFFFFFFF | (source.st_size & 0xFFFFFFFF) << 32
    if content[:16] != _BY_TIME + valid.to_bytes(8, "little"):
        return None
    code: CodeType = marshal.loads(memoryview(content)[16:])
    _imp._fix_co_filename(code, path)  # type: ignore[attr-defined]
    return code
