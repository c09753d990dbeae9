"""`taupy doctor FILE`: check that a database satisfies every invariant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taupy.commands import bar
from taupy.errors import DatabaseError, TaupyError
from taupy.pprof import terminal
from taupy.pprof.view import Column, View
from taupy.profiledb import migrations
from taupy.profiledb.database import ProfileDB

if TYPE_CHECKING:
    from taupy.profiledb.audit import Finding

_COLUMNS = (
    Column("file", audience="machines"),
    Column("state", heading="State"),
    Column("check", heading="Check"),
    Column("trial", "int", "Trial"),
    Column("says", heading="Says"),
    Column("text", heading="What", sentence=True),
)


def examine(paths: list[str], form: terminal.Form) -> int:
    """Audit databases and show the findings; returns 1 if any database has a problem."""
    views = []
    wrong = False
    for path in paths:
        view, problems = _audited(path)
        views.append(view)
        wrong = wrong or problems
    if len(views) == 1:
        terminal.show(views[0], form=form)
    else:
        terminal.show_all(views, form=form)
    return 1 if wrong else 0


def _audited(path: str) -> tuple[View, bool]:
    from taupy.profiledb.audit import WORDS, Finding, audit

    findings: list[Finding] = []
    trials = 0
    try:
        with ProfileDB.open(path) as db, bar.shown() as progress:
            ((version,),) = db.rows("PRAGMA user_version")
            if version < migrations.SCHEMA_VERSION:
                text = f"the file has the older schema {version}, not {migrations.SCHEMA_VERSION}: "
                text += (
                    f"the first command that writes upgrades it, or taupy doctor {path} --upgrade"
                )
                findings.append(Finding("note", "file", None, text))
            findings += audit(db, progress)
            try:
                trials = len(db.trials())
            except TaupyError:
                trials = 0
    except DatabaseError as refusal:
        findings.append(Finding("PROBLEM", "file", None, str(refusal)))
    problems = sum(finding.state == "PROBLEM" for finding in findings)
    findings.sort(key=lambda finding: finding.state != "PROBLEM")
    what = f"{trials} trial{'' if trials == 1 else 's'}"
    has_exceptions = any(finding.check == "laws" for finding in findings)
    laws = (
        "all invariants hold"
        if not has_exceptions
        else "exceptions only where the trial notes them"
    )
    summary = f"no problems: {what}, {laws}"
    if problems:
        summary = _advice(path, findings, problems)
    rows = [(path, *finding[:3], WORDS[finding.check], finding.text) for finding in findings]
    return View(f"DATABASE {path}", _COLUMNS, rows, (summary,)), bool(problems)


def _advice(path: str, findings: list[Finding], problems: int) -> str:
    """How many problems there are, and what to do about them."""
    text = f"{problems} problem{'' if problems == 1 else 's'}"
    wrong = [finding for finding in findings if finding.state == "PROBLEM"]
    if any(finding.trial is None for finding in wrong):
        return text
    numbers = ", ".join(str(trial) for trial in sorted({finding.trial or 0 for finding in wrong}))
    return (
        f"{text}, all of trial {numbers}; the other trials are intact; "
        f"`taupy trials delete TRIAL --db {path}` deletes one"
    )
