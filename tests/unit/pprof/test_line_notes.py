"""The line that each routine of a flat table is mostly in."""

import pytest

from taupy.commands import main
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import call, host, line_times, profile_of


@pytest.fixture
def path(tmp_path):
    profile = profile_of(
        host(call("main", 1, 9, [call("work", 3, 5)])), host(call("main", 1, 9), thread=1)
    )
    names = [timer.name for timer in profile.timers]
    profile.threads[0].lines = line_times(names.index("main"), names.index("work"))
    with ProfileDB.open(tmp_path / "taupy.db", create=True) as db:
        add_profile(db, profile)
    return str(tmp_path / "taupy.db")


def rows(text, title):
    table = text[text.index(title) :].split("\n\n")[0]
    return [line.split() for line in table.splitlines() if "~" in line]


def test_a_row_names_the_line_and_its_share_as_an_estimate(path, capsys):
    assert main(["pprof", "--db", path]) == 0
    shown = capsys.readouterr().out
    # Of 1,020 ns in lines, line 3 has 750; line 9 was seen too rarely to be named.
    for title in ("THREAD 0", "(total)"):
        (row,) = rows(shown, title)
        assert row[-4:-1] == ["3", "~73.5", "%"] and row[-1].startswith("main")
    assert not rows(shown, "THREAD 1")  # at which nobody has looked
    assert shown.count("estimated from looks") == 1


@pytest.mark.parametrize("option", ["--csv", "--tree", "--list"])
def test_other_tables_have_no_such_column(path, capsys, option):
    assert main(["pprof", "--db", path, option]) == 0
    assert "~" not in capsys.readouterr().out
