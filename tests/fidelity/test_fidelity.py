"""Every program behaves as under plain Python, and has a profile.

Environment variables:
TAUPY_FIDELITY_SELFTEST=1 runs plain Python twice, which checks the corpus itself;
TAUPY_FIDELITY_OPTIONS has further options of `taupy run`, such as "--c-calls".
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from .cases import Case
from .harness import TIMED_OUT, Outcome, Sandbox
from .programs import catalogue

SELFTEST = os.environ.get("TAUPY_FIDELITY_SELFTEST") == "1"
OPTIONS = tuple(os.environ.get("TAUPY_FIDELITY_OPTIONS", "").split())
PLAIN_ENGINE = "python" in OPTIONS  # of the profile, it promises less, see docs/api.md
LEVELS = 6  # the number that its callback needs
SEE_THE_PLAIN_ENGINE = {  # its profile function, its function in `atexit`, its files
    *("hooks-setprofile", "hooks-settrace_and_setprofile_in_threads", "hooks-profile_in_python"),
    *("environment-sitecustomize_profiles", "pristine-hooks", "pristine-atexit_count"),
    *("pristine-an_audit_hook_hears_nothing_of_us", "patching-audit_hook_refuses_all"),
    *("patching-audit_hook_ends_the_process", "patching-atexit_cleared"),
    *("patching-atexit_run_early", "descriptors-every_descriptor_taken"),
    *("descriptors-limit_on_file_size", "descriptors-limit_on_file_size_zero"),
    *("descriptors-limit_on_descriptors_tiny", "descriptors-limit_on_memory_exhausted"),
}


def _parametrized() -> list:
    """All cases; only the first of each class is quick, the others run in `make test-all`."""
    classes: set[str] = set()
    parameters = []
    for case in catalogue():
        class_of_case = case.name.partition("-")[0]
        marks = [pytest.mark.slow] if class_of_case in classes else []
        parameters.append(pytest.param(case, id=case.name, marks=marks))
        classes.add(class_of_case)
    return parameters


@pytest.mark.parametrize("case", _parametrized())
def test_the_program_runs_as_under_plain_python_and_its_profile_is_kept(case):
    if case.hindrance is not None:
        pytest.skip(case.hindrance)
    if PLAIN_ENGINE and case.name in SEE_THE_PLAIN_ENGINE:
        pytest.skip("the plain engine cannot hide here, see docs/api.md")
    faults = _faults(case)
    assert not faults, "\n".join(faults)


def test_the_trial_is_listed_by_the_command_with_its_exit_code(tmp_path):
    sandbox = Sandbox(tmp_path)
    sandbox.run(Case("x", "raise SystemExit(3)\n"), _launcher(sandbox))
    listed = sandbox.taupy("trials", "--db", str(sandbox.database), "--json")
    (trial,) = json.loads(listed.stdout)["rows"]
    assert (trial["exit_code"], trial["state"]) == (3, "complete")


def test_plain_python_is_left_alone_by_the_installation(tmp_path):
    sandbox = Sandbox(tmp_path)
    shows = Case("x", "import sys\nprint([m for m in sys.modules if m.startswith('taupy')])\n")
    assert sandbox.run(shows, ()).stdout == b"[]\n"


def _launcher(sandbox: Sandbox) -> tuple[str, ...]:
    return ("-m", "taupy", "run", "--quiet", *OPTIONS, "--db", str(sandbox.database))


def _faults(case: Case) -> list[str]:
    """The differences, one line each."""
    # A short path, because multiprocessing creates sockets in it.
    with tempfile.TemporaryDirectory(prefix="fid-", ignore_cleanup_errors=True) as root:
        sandbox = Sandbox(Path(root).resolve())
        try:
            return _examined(case, sandbox)
        finally:
            sandbox.sweep()


def _examined(case: Case, sandbox: Sandbox) -> list[str]:
    plain = sandbox.run(case, launcher=())
    wanted = case.says if isinstance(case.says, bytes) else case.says.encode()
    output = plain.stdout + plain.stderr
    # A terminal turns \n into \r\n.
    if plain.status != case.status or not (
        wanted in output or wanted in output.replace(b"\r", b"")
    ):
        return [f"the case is wrong: expected {case.status}, {wanted[:200]!r}, got {plain}"]
    if SELFTEST:
        return _differences(case, plain, sandbox.run(case, launcher=()))
    measured = sandbox.run(case, _launcher(sandbox))
    if measured.wall_s - plain.wall_s > _allowed_lateness_s(case):
        # Again: the machine may have been busy.
        measured = sandbox.run(case, _launcher(sandbox))
    return [
        *(f"program: {fault}" for fault in _differences(case, plain, measured)),
        *(f"profile: {fault}" for fault in _losses(case, sandbox, plain)),
    ]


def _differences(case: Case, plain: Outcome, measured: Outcome) -> list[str]:
    if measured.status == TIMED_OUT:
        return ["hangs"]
    faults = []
    for name in ("status", "stdout", "stderr"):
        if name == "stderr" and not case.compares_stderr:
            continue
        expected, got = getattr(plain, name), getattr(measured, name)
        if name != "status" and case.shows_depth and PLAIN_ENGINE:
            expected, got = _without_depths(case, name, expected, got)
        if expected != got:
            faults.append(f"{name} differs{_first_difference(expected, got)}")
    for path in sorted({*plain.files, *measured.files}):
        expected, got = plain.files.get(path, "absent"), measured.files.get(path, "absent")
        if expected != got:
            faults.append(f"file {os.fsdecode(path)!r}: expected {expected}, got {got}")
    late_s = measured.wall_s - plain.wall_s
    if late_s > _allowed_lateness_s(case):
        faults.append(f"late by {late_s:.1f} s")
    return faults


def _without_depths(case: Case, name: str, *texts: bytes) -> tuple[bytes, bytes]:
    """The text to compare if the plain engine reaches fewer levels: the output up to a few levels
    (any number if levels of C count), and the last line of a traceback."""
    if name == "stderr":
        expected, got = (text.rpartition(b"\nRecursionError")[2] for text in texts)
        return expected, got
    depths = [[int(number) for number in re.findall(rb"\d+", text)] for text in texts]
    pairs = zip(*depths, strict=False)
    if case.depth_through_c or all(0 <= plain - here <= LEVELS for plain, here in pairs):
        texts = tuple(re.sub(rb"\d+", b"N", text) for text in texts)
    expected, got = texts
    return expected, got


def _allowed_lateness_s(case: Case) -> float:
    """More if other processes use the CPUs."""
    return case.lateness_s * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _losses(case: Case, sandbox: Sandbox, plain: Outcome) -> list[str]:
    # The command runs first, because it stores the runs of killed programs.
    shown = sandbox.taupy("pprof", "--db", str(sandbox.database), "--json")
    if case.trials is None:
        return []
    if shown.returncode != 0:
        return [f"pprof fails: {shown.stderr.decode()}"]
    with closing(sqlite3.connect(f"file:{sandbox.database}?mode=ro", uri=True)) as connection:
        trials = connection.execute("SELECT state, exit_code FROM trials").fetchall()
    if len(trials) != case.trials:
        return [f"{case.trials} trials expected, got {trials}"]
    faults = []
    state, exit_code = trials[-1]
    # It does not learn of a kill, nor that a stream could not be flushed at the very end.
    may_miss_the_end = PLAIN_ENGINE and (plain.status < 0 or plain.status == 120)
    if case.state is not None and state != case.state and not may_miss_the_end:
        faults.append(f"state: expected {case.state}, got {state}")
    expected = plain.status if case.sees_the_end else None
    is_unknown = PLAIN_ENGINE and (exit_code is None or may_miss_the_end)
    if state == "complete" and exit_code != expected and not is_unknown:
        faults.append(f"exit_code: expected {expected}, got {exit_code}")
    beside = [p.name for p in sandbox.database.parent.iterdir() if p != sandbox.database]
    if beside:
        faults.append(f"files beside the database: {beside}")
    left = sorted(path.name for path in (sandbox.state / "taupy").glob("*run*"))
    if left:
        faults.append(f"left in the state folder: {left}")
    calls = _calls(json.loads(shown.stdout))
    for routine, expected in ({} if PLAIN_ENGINE else case.routines).items():
        got = calls[routine]
        if not got:
            faults.append(f"routine {routine[:99]!r} is missing; there: {sorted(calls)[:40]}")
        elif expected is not None and got != expected:
            faults.append(f"routine {routine[:99]!r}: {expected} calls expected, got {got}")
    return faults


def _calls(views) -> Counter[str]:
    """Calls by short name, summed over call paths, nodes and threads."""
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
