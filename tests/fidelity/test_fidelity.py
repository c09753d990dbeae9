"""Every program behaves as under plain Python, and its profile is kept.

With TAUPY_FIDELITY_SELFTEST=1 the second run is plain as well, which checks
that the corpus itself is deterministic.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from .cases import Case
from .harness import TIMED_OUT, Outcome, Sandbox
from .programs import catalogue

SELFTEST = os.environ.get("TAUPY_FIDELITY_SELFTEST") == "1"
CASES = catalogue()


@pytest.fixture
def sandbox():
    # A short path: multiprocessing puts sockets below it.
    with tempfile.TemporaryDirectory(prefix="fid-", ignore_cleanup_errors=True) as root:
        sandbox = Sandbox(Path(root).resolve())
        yield sandbox
        sandbox.sweep()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[pytest.mark.slow] if case.slow else [])
        for name, case in CASES.items()
    ],
)
def test_the_program_runs_as_under_plain_python_and_its_profile_is_kept(case, sandbox):
    if case.hindrance is not None:
        pytest.skip(case.hindrance)
    plain = sandbox.run(case, launcher=())
    wanted = case.says if isinstance(case.says, bytes) else case.says.encode()
    # A terminal turns \n into \r\n.
    said = (plain.stdout + plain.stderr).replace(b"\r\n", b"\n") if b"\r" not in wanted else (
        plain.stdout + plain.stderr
    )
    assert (plain.status, wanted in said) == (case.status, True), f"the corpus is wrong: {plain}"
    if SELFTEST:
        again = sandbox.run(case, launcher=())
        assert _differences(case, plain, again) == []
        return
    measured = sandbox.run(
        case, launcher=("-m", "taupy", "run", "--quiet", "--db", str(sandbox.database))
    )
    faults = [f"program: {fault}" for fault in _differences(case, plain, measured)]
    faults += [f"profile: {fault}" for fault in _losses(case, sandbox, plain)]
    assert not faults, "\n".join(faults)


def _differences(case: Case, plain: Outcome, measured: Outcome) -> list[str]:
    if measured.status == TIMED_OUT:
        return ["hangs"]
    faults = []
    for name in ("status", "stdout", "stderr"):
        if name == "stderr" and not case.compares_stderr:
            continue
        expected, got = getattr(plain, name), getattr(measured, name)
        if expected != got:
            faults.append(f"{name} differs{_first_difference(expected, got)}")
    for path in sorted({*plain.files, *measured.files}):
        expected, got = plain.files.get(path, "absent"), measured.files.get(path, "absent")
        if expected != got:
            faults.append(f"file {os.fsdecode(path)!r}: expected {expected}, got {got}")
    late_s = measured.wall_s - plain.wall_s
    if late_s > case.lateness_s:
        faults.append(f"late by {late_s:.1f} s")
    return faults


def _losses(case: Case, sandbox: Sandbox, plain: Outcome) -> list[str]:
    listed = sandbox.taupy("trials", "--db", str(sandbox.database), "--json")
    if case.trials is None:
        return []
    if listed.returncode != 0:
        return [f"trials fails: {listed.stderr.decode()}"]
    trials = json.loads(listed.stdout)["rows"]
    if len(trials) != case.trials:
        return [f"{case.trials} trials expected, got {len(trials)}: {trials}"]
    faults = []
    trial = trials[-1]
    if case.state is not None and trial["state"] != case.state:
        faults.append(f"state: expected {case.state}, got {trial['state']}")
    if trial["state"] == "complete" and trial["exit_code"] != plain.status:
        faults.append(f"exit_code: expected {plain.status}, got {trial['exit_code']}")
    beside = [p.name for p in sandbox.database.parent.iterdir() if p != sandbox.database]
    if beside:
        faults.append(f"files beside the database: {beside}")
    shown = sandbox.taupy("pprof", "--db", str(sandbox.database), "--json")
    if shown.returncode != 0:
        return [*faults, f"pprof fails: {shown.stderr.decode()}"]
    calls = _calls(json.loads(shown.stdout))
    for routine, expected in case.routines.items():
        got = calls[routine]
        if not got:
            faults.append(f"routine {routine[:99]!r} is missing; there: {sorted(calls)[:40]}")
        elif expected is not None and got != expected:
            faults.append(f"routine {routine[:99]!r}: {expected} calls expected, got {got}")
    return faults


def _calls(views) -> Counter[str]:
    """Calls by the routine's short name, summed over places, nodes and threads."""
    calls: Counter[str] = Counter()
    for view in views:
        for row in view["rows"]:
            if row["table"] == "thread":
                calls[row["short_name"]] += row["calls"]
    return calls


def _first_difference(expected, got) -> str:
    if not isinstance(expected, bytes):
        return f": expected {expected}, got {got}"
    theirs, ours = expected.splitlines(), got.splitlines()
    for number in range(max(len(theirs), len(ours))):
        a = theirs[number] if number < len(theirs) else b"(end)"
        b = ours[number] if number < len(ours) else b"(end)"
        if a != b:
            return f" in line {number + 1}: expected {a[:600]!r}, got {b[:600]!r}"
    return f": expected {expected[-80:]!r}, got {got[-80:]!r}"
