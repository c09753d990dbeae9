"""Which imported packages have modules that were compiled from Python to C, as by mypyc or Cython.

Such an extension module lies beside its source, and is loaded instead. What one without a source in
Python has are C functions. Names in folders tell it, so the measured program is not asked.
"""

from __future__ import annotations

import _imp
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from taupy.dataclass import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.instrument.runfolder import RunSettings
    from taupy.model.profile import Profile

COMPILED = "taupy.compiled_modules"
"""Metadata: the packages, separated by blanks."""

_IMPORT = "import "


class _Listing(NamedTuple):
    """Names of what is in a folder, and paths of sources beside their compiled modules."""

    names: frozenset[str] = frozenset()
    sources: tuple[str, ...] = ()


def add_compiled(profile: Profile, settings: RunSettings) -> None:
    """Note the packages with routines that are not seen, of a run on this machine."""
    folders = [settings.program_folder, *settings.module_path, *settings.library_folders]
    listing = cache(_listing)
    seen = {timer.path for timer in profile.timers}
    packages: dict[str, None] = {}
    for timer in profile.timers:
        if "IMPORT" in timer.groups:
            module = timer.name.removeprefix(_IMPORT).split(".")
            if any(source not in seen for source in _sources(module, folders, listing)):
                packages[module[0]] = None
    if packages:
        profile.metadata[COMPILED] = " ".join(packages)


def _sources(
    module: Sequence[str], folders: Sequence[str], listing: Callable[[str], _Listing]
) -> Iterator[str]:
    """The sources of compiled modules: of this one, and in the packages that it is in."""
    top = module[0]
    forms = {f"{top}{suffix}" for suffix in ("", ".py", *_imp.extension_suffixes())}
    folder = next((folder for folder in folders if not forms.isdisjoint(listing(folder).names)), "")
    source = f"{folder}/{top}.py"
    if source in listing(folder).sources:
        yield source
    for name in module:
        folder = f"{folder}/{name}"
        yield from listing(folder).sources


def _listing(folder: str) -> _Listing:
    try:
        names = frozenset(os.listdir(folder))
    except (OSError, ValueError):  # ValueError: the name of a module may be any text
        return _Listing()
    modules = {
        name.removesuffix(suffix)
        for suffix in _imp.extension_suffixes()
        for name in names
        if name.endswith(suffix)
    }
    sources = (f"{folder}/{module}.py" for module in modules if f"{module}.py" in names)
    return _Listing(names, tuple(sources))
