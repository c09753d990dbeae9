"""Read the program's own source files when a run is stored, with secrets masked.

Only files of the program's own routines are read, the dearest first, up to `LARGEST` bytes of text
in all. Of what does not fit, the digest is kept, which tells later whether a file is the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping

from taupy.analysis.own_code import Extent, is_own
from taupy.instrument.runfolder import RunSettings
from taupy.model.masking import Masking
from taupy.model.metric import ROOT_TIMER, TIME
from taupy.model.profile import Profile, SourceFile
from taupy.model.rows import TimerRow
from taupy.model.source_text import LARGEST, decoded, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST = 1000
"""Files that are read of a run."""

_CODE = "<string>"


def read_sources(profile: Profile, settings: RunSettings, masking: Masking) -> list[SourceFile]:
    """The files of a run that was just measured on this machine."""
    keeps = not settings.engine_options.get("no_source")
    room = LARGEST if keeps else -1
    sources: list[SourceFile] = []
    for path, file in _own_files(profile):
        content = _code_of(settings) if path == _CODE else read(os.path.join(settings.cwd, path))
        content = content or _cell(path)
        if content is None:
            continue
        data, written_at = content
        kept = len(data) <= room
        room -= len(data) if kept else 0
        changed = written_at > settings.launched_at
        sources.append(_source(path, file, data, changed, masking, kept))
        if len(sources) == _MOST:
            break
    return sources


def _source(
    path: str, file: str, data: bytes, changed: bool, masking: Masking, kept: bool
) -> SourceFile:
    text, masked = masking.source(decoded(data))
    digest = _sha256(data)
    return SourceFile(path, file, digest, masked, changed, text if kept else None)


def _sha256(data: bytes) -> str:
    """By the module below `hashlib`, which would load OpenSSL first."""
    try:
        below: Any = __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256")
    except ImportError:
        import hashlib as below
    return str(below.sha256(data).hexdigest())


def _cell(path: str) -> tuple[bytes, float] | None:
    """The text of a notebook's cell, if it is this process that has compiled it."""
    entry: Any = getattr(sys.modules.get("linecache"), "cache", {}).get(path, ())
    return ("".join(entry[2]).encode("utf-8", "replace"), 0) if len(entry) > 2 else None


def _code_of(settings: RunSettings) -> tuple[bytes, float] | None:
    """The text of `-c`."""
    first, *rest = settings.arguments or [""]
    if not first.startswith("-c"):
        return None
    return (first[2:] or "".join(rest[:1])).encode("utf-8", "replace"), 0


def _own_files(profile: Profile) -> Iterator[tuple[str, str]]:
    """(path, displayed name) of the files of own routines, the dearest first."""
    spent = _spent(profile)
    own = own_codes(profile, spent)
    by_file: dict[tuple[str, str], int] = {}
    for code in own:
        timer = profile.timers[code]
        path = timer.path or ""
        if timer.file and path and (path[0] != "<" or path == _CODE or _cell(path)):
            key = path, timer.file
            by_file[key] = by_file.get(key, 0) + spent.get(code, 0)
    yield from sorted(by_file, key=lambda key: (-by_file[key], key))


def _spent(profile: Profile) -> dict[int, int]:
    """The exclusive time of each timer on host threads."""
    spent: dict[int, int] = {}
    for thread in profile.threads:
        tree = thread.tree
        if thread.thread.kind == "host":
            times = tree.exclusive.get(TIME.name) or [0] * len(tree)
            for code, time in zip(tree.timer, times, strict=True):
                spent[code] = spent.get(code, 0) + max(time, 0)
    return spent


def own_codes(profile: Profile, timers: Collection[int] | Mapping[int, int]) -> list[int]:
    """The own ones of these timers; of an installed program, those of its package, which takes a
    look at all call paths."""
    extent = Extent(frozenset({_CODE}))
    own = [code for code in timers if _is_own(profile, code, extent)]
    if any(not _is_script(profile.timers[code].path or "") for code in own):
        return own
    from taupy.analysis.places import own_timers
    from taupy.analysis.trees import Tree

    tree, paths = Tree.of_profile(profile)
    mask = own_timers(tree, paths)
    return [code for code in timers if mask[code]]


def _is_own(profile: Profile, code: int, extent: Extent) -> bool:
    timer = profile.timers[code]
    if timer.file is None or timer.full_name == ROOT_TIMER:
        return False
    row = TimerRow(timer.full_name, timer.name, timer.file, timer.line, "|".join(timer.groups))
    return is_own(timer.path or timer.file, extent, row)


def _is_script(path: str) -> bool:
    """Whether it may be what installing a package makes of an entry point."""
    return os.path.dirname(path).endswith("/bin") and "." not in os.path.basename(path)
