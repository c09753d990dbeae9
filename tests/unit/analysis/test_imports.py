"""The rule of imports: how its time grows with a program's imports."""

from __future__ import annotations

import os
import platform
from functools import cache
from signal import SIGTERM

import pytest

from taupy.analysis.findings import imports
from taupy.model.finding import Abstention
from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.report.evidence import trial_of
from tests.builders import call, host, profile_of
from tests.growth import is_linear

ROUTINES = 10


def imported(number: int):
    body = [call(Timer(f"f{k}", f"m{number}.py", k + 1), 1, 10) for k in range(ROUTINES)]
    return call(Timer(f"import m{number}", groups=("IMPORT",)), 1, 1000, body)


def test_its_time_is_linear_in_the_number_of_imports(tmp_path):
    @cache
    def trial(count):
        main = call(Timer("main", "a.py", 1), 1, 0, [imported(number) for number in range(count)])
        with ProfileDB.open(str(tmp_path / f"{count}.db"), create=True) as db:
            add_profile(db, profile_of(host(main)))
            made = trial_of(db, db.latest())
            assert len(made.calls) == 1 + count * (1 + ROUTINES)
            return made

    def judge(count):
        assert list(imports.find(trial(count))) == []

    judge(100), judge(800)  # asked once
    assert is_linear(judge, 100)


@pytest.mark.parametrize("exit_code", [0, 1, -SIGTERM, None])
def test_what_a_library_imports_or_uses_is_no_advice(tmp_path, exit_code):
    """The program imports `heaps`, a module of one file that it uses, and `spare`, which it does
    not, as far as a run shows that went to its end; its library imports `lazy` when it is called.
    """
    (tmp_path / "a.py").write_text("import heaps, spare, tool\ntool.most(heaps)\n")
    os.utime(tmp_path / "a.py", (0, 0))
    library = ("PYTHON", "LIBRARY")
    main = call(Timer("<module>", "a.py", 1, path=str(tmp_path / "a.py")), 1, 0, [
        *(call(Timer(f"import {name}", groups=("IMPORT",)), 1, 500_000_000)
          for name in ("heaps", "spare")),
        call(Timer("most", "tool.py", 1, library), 1, 0, [
            call(Timer("import lazy", groups=("IMPORT",)), 1, 500_000_000),
            call(Timer("largest", "heaps.py", 9, library), 1, 100_000_000),
        ]),
    ])  # fmt: skip
    with ProfileDB.open(str(tmp_path / "t.db"), create=True) as db:
        facts = {"Hostname": platform.node()}
        add_profile(db, profile_of(host(main), metadata=facts, exit_code=exit_code))
        (found,) = imports.find(trial_of(db, db.latest()))
    if exit_code == 0:
        assert found.sentence.startswith("import spare in <module> (a.py:1) takes 500 ms")
    else:  # what it would have used is not known
        assert isinstance(found, Abstention) and "failed or was stopped" in found.reason
