"""List, show, rename, tag and delete trials.

    taupy trials                     all trials, the newest first
    taupy trials mnist gpu=H200      trials that match any of these selectors
    taupy trials mnist,gpu=H200 -n 5     the last five that match both
    taupy trials running             runs that are under way, which have no id yet, and their
                                     snapshots: running@LABEL
    taupy trials show [TRIAL]        one trial with its metadata (default: latest)
    taupy trials rename TRIAL NAME
    taupy trials tag TRIAL TAG       add a tag
    taupy trials untag TRIAL TAG     remove a tag
    taupy trials note TRIAL TEXT     set the note, or remove it with ''
    taupy trials set TRIAL NAME=VALUE    set a fact of your own, or remove it with NAME=
    taupy trials search WORD...      trials in which all words occur: in the names of their
                                     application, experiment, trial or routines, a tag or the note
    taupy trials delete TRIAL...     asks for confirmation, unless --yes is given

TRIAL is `latest`, an id, application/experiment/trial (with * and ?), a name,
tag:TAG, gpu=MODEL, meta.NAME=VALUE, or the beginning of a uuid. If a trial is named like one of
the actions above, list it with `taupy trials list NAME`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from taupy.commands import bar, options, running
from taupy.commands.messages import say, tell
from taupy.errors import TaupyError, UsageError
from taupy.model.rows import TrialRow
from taupy.pprof import terminal
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb import query, search, selector
from taupy.profiledb.address import is_address
from taupy.profiledb.database import NOTE, ProfileDB
from taupy.profiledb.opening import editable, opened
from taupy.units import listing, several

_LIST_COLUMNS = (
    Column("id", "int", "ID"),
    Column("uuid", audience="machines"),
    Column("application", heading="Application"),
    Column("experiment", heading="Experiment"),
    Column("name", heading="Trial"),
    Column("started", heading="Started (UTC)", audience="people", spare=True),
    Column("started_at", audience="machines"),
    Column("duration_ns", "time_ns", "Duration"),
    Column("ending", "int", "Exit", "people"),
    Column("exit_code", "int", audience="machines"),
    Column("state", heading="State"),
    Column("source", audience="machines"),
    Column("tags", heading="Tags"),
)

_FACT_COLUMNS = (Column("name", heading="Name"), Column("value", heading="Value"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="ACTION | TRIAL", help="see above")
    options.add_limit_argument(parser, "list the newest N only")
    parser.add_argument("--yes", action="store_true", help="delete without asking")
    parser.add_argument(
        "--compact",
        action="store_true",
        help="after deleting, return the space to the file system (rewrites the file)",
    )
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    words = list(args.words)
    action = words.pop(0) if words and words[0] in _ACTIONS else "list"
    if (args.yes or args.compact) and action != "delete":
        raise UsageError("--yes and --compact apply to `taupy trials delete TRIAL...`")
    if args.limit is not None and action != "list":
        raise UsageError("--limit applies to the list of trials: taupy trials [list] [TRIAL...]")
    writes = action not in ("list", "show", "search")
    path = options.database_or_store(args)
    if args.compact and is_address(path):
        raise UsageError("--compact is for a file; in a store, `taupy store compact` joins files")
    if action in ("note", "set") and is_address(path):
        raise UsageError(
            "a store keeps the facts that were pushed: change them in a database, and push it"
        )
    if action == "list" and (words == [running.RUNNING] or not os.path.exists(path)):
        runs = running.here(path)
        if runs:
            terminal.show(View("", _LIST_COLUMNS, running.rows(runs)), form=args.form)
            return 0
    with editable(path) if writes else opened(path) as db:
        return _ACTIONS[action](db, words, args)


def _list(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    with bar.shown("reading the trials"):
        trials = _selected(db, words) if words else db.trials()
        under_way = [] if words else running.rows(running.here(str(db.path)))
    notes = [] if trials else [f"{db.path} has no trials; `taupy run SCRIPT` adds one"]
    listed = [selector.Together("", [trial]) for trial in trials]
    if not words and not terminal.is_for_programs(args.form):
        listed = selector.made_together(db, trials)
        if any(len(group.trials) > 1 for group in listed):
            notes.append("the runs of a gate or sweep are one row: `taupy trials APPLICATION` "
                         "lists them all")  # fmt: skip
    if args.limit is not None and len(listed) > args.limit:
        older = sum(len(group.trials) for group in listed[: len(listed) - args.limit])
        notes.insert(0, f"{several(older, 'older trial')} not shown (--limit)")
        listed = listed[len(listed) - args.limit :]
    rows = under_way + [_row(group) for group in reversed(listed)]
    terminal.show(View("", _LIST_COLUMNS, rows, notes), form=args.form)
    return 0


def _row(group: selector.Together) -> tuple[Cell, ...]:
    """One trial, or the runs of a gate or sweep: with the last one's id, and what they share."""
    trials = group.trials
    if len(trials) == 1:
        return _rows(trials)[0]
    shared = [
        cells[0] if len(set(cells)) == 1 else None for cells in zip(*_rows(trials), strict=True)
    ]
    applications = listing(list(dict.fromkeys(trial.application for trial in trials)), 3)
    name = f"{group.kind}: {len(trials)} runs, {trials[0].id} to {trials[-1].id}"
    own: dict[str, Cell] = {"id": trials[-1].id, "application": applications, "name": name}
    started = trials[0].started_at
    own |= {"started": started[:19].replace("T", " "), "started_at": started, "duration_ns": None}
    return tuple(
        own.get(column.name, cell) for column, cell in zip(_LIST_COLUMNS, shared, strict=True)
    )


def table(trials: Sequence[TrialRow], notes: Sequence[str] = ()) -> View:
    """The list of these trials, the newest first."""
    return View("", _LIST_COLUMNS, _rows(trials), notes)


def _rows(trials: Sequence[TrialRow]) -> list[tuple[Cell, ...]]:
    rows = []
    for trial in reversed(trials):
        cells = trial._asdict() | {
            "started": trial.started_at[:19].replace("T", " "),
            "ending": trial.ending,
            "tags": ", ".join(trial.tags),
        }
        rows.append(tuple(cells[column.name] for column in _LIST_COLUMNS))
    return rows


def _selected(db: ProfileDB, words: Sequence[str]) -> list[TrialRow]:
    """The trials that these selectors match.

    Raises:
        UsageError: the first word is a misspelt action.
        TaupyError: no trial matches a selector.
    """
    try:
        return selector.many(db, words)
    except TaupyError:
        from difflib import get_close_matches

        action = get_close_matches(words[0], _ACTIONS, n=1, cutoff=0.7)
        if len(words) == 1 or not action:
            raise
        raise UsageError(
            f"'{words[0]}' is neither an action nor a trial: did you mean "
            f"`taupy trials {action[0]}`? (actions: {', '.join(_ACTIONS)})"
        ) from None


def _show(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    if len(words) > 1:
        raise UsageError("show one trial at a time: taupy trials show [TRIAL]")
    with bar.shown("reading the trial"):
        trial = selector.trial(db, *words)
        places = query.threads(db, trial.id)
        metadata = query.metadata_by_node(db, trial.id)
    facts = [
        ("Trial ID", str(trial.id)),
        ("Application", trial.application),
        ("Experiment", trial.experiment),
        ("Trial", trial.name),
        ("Tags", ", ".join(trial.tags)),
        ("Started (UTC)", trial.started_at),
        ("Duration (s)", f"{trial.duration_ns / 1e9:.9f}"),
        ("Exit Code", trial.ending or "unknown"),
        ("State", trial.state),
        ("Nodes", str(len({place.node for place in places}))),
        ("Threads", str(len(places))),
        ("Metrics", ", ".join(f"{m.name} [{m.unit}]" for m in query.metrics(db, trial.id))),
        ("Source", trial.source),
        ("UUID", trial.uuid),
    ]
    by_node: dict[int | None, list[tuple[str, str]]] = {None: facts}
    for node, own in metadata.items():
        by_node.setdefault(node, []).extend(own.items())
    views = [
        View(
            f"TRIAL {trial.id}: {_name(trial)}" if node is None else f"NODE {node}",
            _FACT_COLUMNS,
            rows,
        )
        for node, rows in by_node.items()
    ]
    terminal.show_all(views, form=args.form)
    return 0


def _rename(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    which, name = _two(words, "taupy trials rename TRIAL NAME")
    if not name.strip():
        raise UsageError("a trial's name must not be empty")
    trials = selector.many(db, [which])
    if len(trials) > 1:
        raise UsageError(
            f"'{which}' matches {len(trials)} trials ({_listed(trials)}); rename one by its id"
        )
    db.rename(trials[0].id, name)
    say(f"trial {trials[0].id} is now {_name(db.trial(trials[0].id))} (was {_name(trials[0])})")
    return 0


def _tag(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    which, tag = _two(words, "taupy trials tag TRIAL TAG")
    if not tag.strip():
        raise UsageError("a tag must not be empty")
    trials = selector.many(db, [which])
    with db.transaction():
        for trial in trials:
            db.tag(trial.id, tag)
    say(f"tagged '{tag}': {_listed(trials)}")
    return 0


def _untag(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    which, tag = _two(words, "taupy trials untag TRIAL TAG")
    trials = selector.many(db, [which])
    with db.transaction():
        for trial in trials:
            db.untag(trial.id, tag)
    say(f"no longer tagged '{tag}': {_listed(trials)}")
    return 0


def _note(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    which, text = _two(words, "taupy trials note TRIAL TEXT")
    return _set_metadata(db, which, NOTE, text.strip())


def _set(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    which, assignment = _two(words, "taupy trials set TRIAL NAME=VALUE")
    name, equals, value = (part.strip() for part in assignment.partition("="))
    if not name or not equals:
        raise UsageError("write: taupy trials set TRIAL NAME=VALUE")
    if name.startswith("taupy."):
        raise UsageError(f"{name}: names that begin with 'taupy.' are taupy's own")
    return _set_metadata(db, which, name, value)


def _set_metadata(db: ProfileDB, which: str, name: str, value: str) -> int:
    trials = selector.many(db, [which])
    with db.transaction():
        before = {db.set_metadata(trial.id, name, value) for trial in trials}
    was = listing([f"'{old}'" for old in sorted(before) if old], 3)
    say(
        (f"{name} is now '{value}'" if value else f"{name} is removed")
        + (f" (was {was})" if was else "")
        + f": {_listed(trials)}"
    )
    return 0


def _search(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    if not words:
        raise UsageError("write: taupy trials search WORD...")
    with bar.shown("reading names") as progress:
        ids = search.trials(db, words, progress.advance)
    trials = [trial for trial in db.trials() if trial.id in ids]
    notes = [] if trials else [f"no trial of {db.path} has {' and '.join(words)}"]
    terminal.show(table(trials, notes), form=args.form)
    return 0 if trials else 1


def _delete(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    if not words:
        raise UsageError("name the trials: taupy trials delete TRIAL...")
    trials = selector.many(db, words)
    if not args.yes and not _agreed(trials, db.path):
        say("nothing was deleted")
        return 1
    with bar.shown() as progress:
        progress.begin("deleting", len(trials), "trials")
        with db.transaction():
            for trial in trials:
                db.delete(trial.id)
                progress.advance()
        if args.compact:
            progress.begin("rewriting the file")
            db.compact()
    say(f"deleted: {_listed(trials)}")
    return 0


_ACTIONS = {
    "list": _list,
    "show": _show,
    "rename": _rename,
    "tag": _tag,
    "untag": _untag,
    "note": _note,
    "set": _set,
    "search": _search,
    "delete": _delete,
}


def _agreed(trials: Sequence[TrialRow], path: str) -> bool:
    if not sys.stdin or not sys.stdin.isatty():
        raise UsageError(f"would delete {_listed(trials)}; confirm with --yes")
    for trial in trials:
        say(f"  {trial.id:>6}  {_name(trial)}  {trial.started_at}  {', '.join(trial.tags)}")
    count = "this trial" if len(trials) == 1 else f"these {len(trials)} trials"
    tell(f"Delete {count} from {path} for good? [y/N]", end=" ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _two(words: Sequence[str], usage: str) -> tuple[str, str]:
    if len(words) != 2:
        raise UsageError(f"write: {usage}")
    return words[0], words[1]


def _name(trial: TrialRow) -> str:
    return f"{trial.application}/{trial.experiment}/{trial.name}"


def _listed(trials: Sequence[TrialRow]) -> str:
    return listing((f"{trial.id} {_name(trial)}" for trial in trials), 10)
