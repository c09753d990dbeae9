"""Remove what taupy keeps outside databases, before it is uninstalled.

    taupy clean          list it
    taupy clean --all    remove it: the libraries that `taupy setup` built, what was read of stores,
                         and the folders that are then empty
    pip uninstall taupy-profiler NAME ...    its last line names the packages that only taupy needs

Trials are never removed, and neither are runs that are under way or were not stored yet: the files
they lie in are named, and what stores them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from taupy.commands import bar, packages
from taupy.commands.messages import say
from taupy.escaping import visible
from taupy.instrument.runfolder import open_states, run_folders
from taupy.instrument.torch_library import KINDS
from taupy.session import leftovers
from taupy.store.manifest import cache_folder
from taupy.units import several


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="remove it")


def run(args: argparse.Namespace) -> int:
    states, refused = open_states()
    folders = [Path(state.path) for state in states]
    for state in states:
        state.close()
    files = [*_built(folders), *_of_stores()]
    for file in files:
        if args.all:
            file.unlink(missing_ok=True)
        print(f"{'removed' if args.all else 'would remove'} {visible(str(file))}")
    cache = Path(cache_folder(make=False))
    if cache.is_absolute() and cache.is_dir():
        folders.append(cache)
    emptied = [folder for folder in folders if args.all and not os.listdir(folder)]
    for folder in emptied:
        folder.rmdir()
        print(f"removed {visible(str(folder))}")
    if not files and not emptied:
        say("there is nothing to remove")
    elif not args.all:
        say(f"{several(len(files), 'file')}; `taupy clean --all` removes them")
    runs = run_folders()[0]
    say(*refused, *_kept(runs))
    with bar.shown("looking at installed packages"):
        only_ours = packages.brought()
    what = "taupy, and what nothing else needs" if only_ours else "taupy"
    say(f"{what}: pip uninstall {' '.join([packages.OWN, *only_ours])}")
    return 1 if runs else 0


def _built(folders: list[Path]) -> Iterator[Path]:
    """The libraries that `taupy setup` built, for any PyTorch."""
    for folder in folders:
        for kind in KINDS:
            yield from sorted(folder.glob(f"{kind.name}-*.so"))


def _of_stores() -> Iterator[Path]:
    """What stores said of themselves, and the URLs that the user trusts."""
    folder = cache_folder(make=False)
    if folder:
        yield from sorted(Path(folder).glob("*.json"))


def _kept(runs: list[Path]) -> Iterator[str]:
    """Why each of these run folders is left."""
    unstored = {os.fspath(path): settings for path, settings in leftovers().runs}
    for path in map(os.fspath, runs):
        if path in unstored:
            database = unstored[path].database
            yield f"kept {path}: a run that is not stored: `taupy trials --db {database}` stores it"
        else:
            yield f"kept {path}: a run that is under way, or of another machine"
