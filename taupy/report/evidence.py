"""Answer the rules' questions about a trial from the database: joins `analysis` and `profiledb`."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache

from taupy.analysis.definitions import at_definition
from taupy.analysis.findings.calls import trees
from taupy.analysis.findings.trial import Moment, Trial
from taupy.answers.lines import Lines
from taupy.comparison import kernel_proposals
from taupy.dataclass import replace
from taupy.model.names import is_library
from taupy.model.question import Question
from taupy.model.rows import TimerRow, TrialRow
from taupy.model.sampled import RESIDENT
from taupy.model.table import Table
from taupy.model.timer_columns import TimerColumns
from taupy.profiledb import gpu_query, query, trial_facts
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.sources import timer_paths
from taupy.profiledb.steps import steps_of
from taupy.profiledb.values import values

_LARGEST_SOURCE = 1 << 20
"""Maximum size in bytes: larger modules are not written by hand."""

_COMMAND = "Command Line"
_KIB = 1024


def trial_of(db: ProfileDB, trial: TrialRow, of_threads: Table | None = None) -> Trial:
    """The trial in the form that rules take.

    Args:
        of_threads: the answer to `trees`, if it is known already.
    """
    facts = query.metadata_by_node(db, trial.id)
    metadata = facts.get(None, {})
    paths = timer_paths(db, trial.id)
    source = unchanged_sources(trial, metadata, paths)
    lines_of: dict[tuple[str, str], list[str]] = {}

    def text_of(timer: TimerRow) -> list[str]:
        """The lines of its file, if that is the program's and here."""
        of_file = paths.get(timer.timer) or "", timer.groups
        lines = lines_of.get(of_file)
        if lines is None:
            is_mine = os.path.isabs(of_file[0]) and not is_library(*of_file)
            text = source(timer) if is_mine else None
            lines = lines_of[of_file] = text.split("\n") if text else []
        return lines

    def defined(timer: TimerRow) -> TimerRow:
        """A routine of the program with the line of its `def`, by which sentences name it."""
        return at_definition(timer, text_of(timer))

    @cache
    def ask(question: Question) -> Table:
        if of_threads is not None and question == trees(trial.id):
            table = of_threads
        else:
            table = values(db, question)
        # There may be hundreds of thousands of routines, so each file is looked at once.
        labels = table.labels.get("timer", ()) if paths else ()
        is_whole = isinstance(labels, TimerColumns)
        timers = TimerColumns.of(labels if is_whole else [*filter(None, labels)])
        files = [*zip(map(paths.get, timers.names), timers.groups, strict=True)]
        one_of = dict(zip(files, range(len(files)), strict=True))
        lines = {file: text_of(timers[code]) for file, code in one_of.items()}
        if not any(lines.values()):
            return table
        texts = map(lines.__getitem__, files)
        named = timers.at_lines(
            [
                at_definition(timers[code], text).line if text else line
                for code, (line, text) in enumerate(zip(timers.lines, texts, strict=True))
            ]
        )
        rows = iter(named)
        of_labels = named if is_whole else [timer and next(rows) for timer in labels]
        return replace(table, labels={**table.labels, "timer": of_labels})

    return Trial(
        trial.id,
        trial.duration_ns,
        ask,
        metadata=metadata,
        nodes={node: own for node, own in facts.items() if node is not None},
        devices=gpu_query.devices(db, trial.id),
        metrics=[metric.name for metric in query.metrics(db, trial.id)],
        earlier=_earlier(db, trial),
        memory=_memory(db, trial),
        steps=steps_of(db, trial.id),
        paths=paths,
        lines=[
            row._replace(timer=defined(row.timer), callee=row.callee and defined(row.callee))
            for row in Lines.of_trial(db, trial.id, query.node_facts(db, trial.id), paths).rows
        ],
        source=source,
        advice=kernel_proposals.by_kernel(db, trial.id),
        union_ns=cache(lambda: gpu_query.union_ns(db, trial.id)),
        gpu_times=cache(lambda: gpu_query.gpu_times(db, trial.id)),
        is_capture=trial.is_capture,
        ended_early=trial.source == "taupy run" and trial.exit_code != 0,
    )


def _memory(db: ProfileDB, trial: TrialRow) -> list[Moment]:
    """The memory of the launched process over time."""
    return [
        Moment(row.end_s * 1e9, row.mean * _KIB)
        for row in query.timeline(db, trial.id, RESIDENT)
        if row.node == 0 and row.mean is not None
    ]


def _earlier(db: ProfileDB, trial: TrialRow) -> list[int]:
    """Complete trials of the same command and experiment, stored before this one."""
    commands = trial_facts.metadata_values(db, _COMMAND)
    mine = _arguments(commands, trial.id)
    if not mine:
        return []
    return [
        other.id
        for other in db.trials()
        if other.id < trial.id
        and (other.application, other.experiment) == (trial.application, trial.experiment)
        and (other.state, other.exit_code) == ("complete", trial.exit_code)
        and _arguments(commands, other.id) == mine
    ]


def _arguments(commands: Mapping[int, str], trial_id: int) -> str:
    """The command line without the interpreter's path."""
    return commands.get(trial_id, "").partition(" ")[2]


def unchanged_sources(
    trial: TrialRow, metadata: Mapping[str, str], paths: Mapping[str, str | None]
) -> Callable[[TimerRow], str | None]:
    """A reader of source files on this machine that have not changed since the trial ran."""
    here = trial.source == "taupy run" and metadata.get("Hostname") == platform.node()

    @cache
    def read(path: str) -> str | None:
        return _unchanged(path, datetime.fromisoformat(trial.started_at).timestamp())

    def source(timer: TimerRow) -> str | None:
        path = paths.get(timer.timer) if here else None
        return read(path) if path and os.path.isabs(path) else None

    return source


def _unchanged(path: str, since: float) -> str | None:
    """The text of a regular file that was not modified since then."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with open(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_mtime > since:
            return None
        text = file.read(_LARGEST_SOURCE + 1)
    return text.decode("utf-8", "replace") if len(text) <= _LARGEST_SOURCE else None
