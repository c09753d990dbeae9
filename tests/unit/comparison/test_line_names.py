"""Lines of different trials: which are the same."""

from dataclasses import replace

import pytest

import taupy
from taupy.comparison.line_names import matched_lines
from taupy.errors import MissingMetric, UsageError
from taupy.model.question import Condition, Question
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.line_values import REST, Line
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from tests.builders import call, host, line_times, profile_of

A, B, C = Line("x.py", 5, 1, 10), Line("x.py", 6, 2, 20), Line("x.py", 9, 1, 10)


def numbers(known, lines):
    return {new.number: old.number for new, old in matched_lines(known, lines).items()}


def test_a_line_that_has_only_moved_is_the_same_line():
    moved = [replace_number(A, 8), replace_number(B, 3)]
    assert numbers([A, B], moved) == {8: 5, 3: 6}


def replace_number(line, number, **more):
    return line._replace(number=number, **more)


def test_neighbours_may_have_changed_and_the_file_too():
    assert numbers([A, B], [replace_number(A, 7, context=11)]) == {7: 5}
    assert numbers([A, B], [replace_number(A, 7, file="y.py")]) == {7: 5}


def test_a_line_with_another_text_is_another_line():
    assert numbers([A, B], [Line("x.py", 5, 3, 30)]) == {}


def test_equal_lines_match_in_their_order_or_not_at_all():
    below = [replace_number(A, 15), replace_number(C, 19)]
    assert numbers([A, B, C], below) == {15: 5, 19: 9}
    assert numbers([A, B, C], below[:1]) == {}


def test_without_source_they_match_by_number():
    assert numbers([A, B], [Line("x.py", 5)]) == {5: 5}
    assert numbers([Line("x.py", 5)], [A, B]) == {5: 5}


@pytest.fixture
def path(tmp_path):
    """Trial 2's lines are two lines below those of trial 1; trial 3 has none."""
    path = tmp_path / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        for number in (1, 2, 3):
            profile = profile_of(
                host(call("main", 1, 9, [call("work", 3, 5)])), number=number, name=str(number)
            )
            names = [timer.name for timer in profile.timers]
            down = 2 * (number - 1)
            profile.threads[0].lines = [
                replace(
                    line, line=line.line + down, end_line=line.end_line + down,
                    text_hash=line.line, context_hash=line.line * 100,
                )
                for line in line_times(names.index("main"), names.index("work"))
            ] if number < 3 else []  # fmt: skip
            add_profile(db, profile)
    return path


def test_values_by_line_are_those_of_the_table(path):
    with ProfileDB.open(path) as db:
        table = values(db, Question((1,), by=("line",)))
        stored = dict(
            db.rows("SELECT line, sum(time_ns) FROM line WHERE trial_id = 1 GROUP BY line")
        )
        looks = dict(db.rows("SELECT line, sum(looks) FROM line WHERE trial_id = 1 GROUP BY line"))
        of_line = dict(
            zip(table.row_labels("line"), table.column("exclusive", "time"), strict=True)
        )
        rest = of_line.pop(REST, 0)
        assert {line.number: time for line, time in of_line.items()} == {
            line: time for line, time in stored.items() if looks[line] >= 10
        }
        assert rest == sum(time for line, time in stored.items() if looks[line] < 10) > 0
        for question in (
            Question((1,), by=("line", "callpath")),
            Question((1,), by=("line", "group")),
            Question((1,), ("cpu_time",), by=("line",)),
        ):
            with pytest.raises(UsageError):
                values(db, question)
        none = Question((1,), by=("line",), where=(Condition("node", (7,)),))
        assert values(db, none).size == 0


def test_lines_that_moved_share_a_row(path):
    db = taupy.open(path)
    frame = db.compare(1, 2, by="line")
    assert set(frame["in"]) == {"all"} and (frame.a_ns == frame.b_ns).all() and len(frame) > 1
    assert "moved" in set(frame.match)
    pivot = db.pivot(1, 2, rows="line", columns="id")
    assert len(pivot) == len(frame)


def test_what_is_not_known_of_lines_is_refused(path):
    db = taupy.open(path)
    for more in ({"value": "calls"}, {"value": "inclusive"}):
        with pytest.raises(UsageError, match="only the time"):
            db.compare(1, 2, by="line", **more)
    with pytest.raises(MissingMetric, match="trials 3 have no times of lines"):
        db.compare(1, 3, by="line")
    with pytest.raises(MissingMetric):
        db.pivot(3, rows="line", columns="id")


def test_estimates_begin_with_a_tilde(path):
    from taupy.answers import compare

    with ProfileDB.open(path) as db:
        table = compare.compared(db, ["1", "2"], compare.Options(by="line")).tables()[0]
    kinds = {column.heading: column.kind for column in table.columns}
    assert {kinds[name] for name in ("~A", "~B", "~B - A")} == {"about_ns"}
    assert kinds["~%A"] == "about_percent" and kinds["~B / A"] == "about_count"
    assert any(note.startswith("~: ") for note in table.notes)


@pytest.mark.parametrize("exact", [False, True])
def test_intervals_of_estimates_begin_with_a_tilde_and_exact_ones_do_not(tmp_path, exact):
    from taupy.answers import compare

    path = tmp_path / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        for number in range(1, 11):
            profile = profile_of(
                host(call("main", 1, 900 + number)),
                number=number,
                name=f"{'ab'[number > 5]}#{number}",
            )
            main = [timer.name for timer in profile.timers].index("main")
            profile.threads[0].lines = [
                replace(
                    line, time_ns=line.time_ns + number, count=1 if exact else None,
                    inclusive_ns=line.time_ns if exact else None,
                )
                for line in line_times(main)[:2]
            ]  # fmt: skip
            add_profile(db, profile)
        table = compare.compared(db, ["a", "b"], compare.Options(by="line")).tables()[0]
    about = "" if exact else "~"
    headings = [column.heading for column in table.columns]
    at = headings.index(f"95 %\nof {about}ratio")
    assert f"{about}A" in headings
    for row in table.rows:
        assert str(row[at]).startswith(about) and " .. " in str(row[at])
        assert ("~" in str(row[at])) != exact


@pytest.fixture
def looked_at(tmp_path):
    """Trials 1 and 2 of programs that were looked at; trial 3 of a run."""
    path = tmp_path / "looked.db"
    with ProfileDB.open(path, create=True) as db:
        for number in (1, 2, 3):
            calls = int(number == 3)
            profile = profile_of(
                host(call("main", calls, 9, [call("work", calls, 5)])),
                number=number,
                name=str(number),
            )
            names = [timer.name for timer in profile.timers]
            profile.threads[0].lines = line_times(names.index("main"), names.index("work"))
            if number < 3:
                profile.source = f"attach {number}: prog.py"
            add_profile(db, profile)
    return path


def compared_tables(path, *trials, **options):
    from taupy.answers import compare

    with ProfileDB.open(path) as db:
        return compare.compared(db, trials, compare.Options(**options)).tables()


def test_times_of_programs_looked_at_are_estimates_with_their_error(looked_at):
    (table,) = compared_tables(looked_at, "1", "2")
    names = [column.name for column in table.columns]
    headings = {column.heading for column in table.columns}
    assert {"~A", "~B", "~B - A", "~B / A", "~%A"} <= headings
    for row in table.rows:
        assert row[names.index("calls_a")] is row[names.index("calls_b")] is None
    (note,) = (note for note in table.notes if note.startswith("~: "))
    assert note.startswith("~: all times of A and B are estimated: A from ") and "+-" in note


def test_a_side_that_was_run_is_exact_beside_one_that_was_looked_at(looked_at):
    (table,) = compared_tables(looked_at, "1", "3")
    names = [column.name for column in table.columns]
    for row in table.rows:
        assert row[names.index("calls_a")] is None and row[names.index("calls_b")] == 1
    assert any(
        note.startswith("~: all times of A are estimated, of B none: A from ") and "; B" not in note
        for note in table.notes
    )
    (by_line,) = compared_tables(looked_at, "1", "3", by="line")
    assert any(
        note.startswith("~: all times of A are estimated, of B only the division among lines: A")
        for note in by_line.notes
    )


def test_calls_of_a_program_looked_at_are_not_compared(looked_at):
    for value in ("calls", "exclusive-per-call"):
        with pytest.raises(UsageError, match="trial 1 was only looked at"):
            compared_tables(looked_at, "1", "3", value=value)


def test_a_pivot_with_a_program_looked_at_has_estimates(looked_at):
    from taupy.study import pivot, pivot_view

    with ProfileDB.open(looked_at) as db:
        for trials, kind in ((["1", "3"], "about_ns"), (["3"], "time_ns")):
            table = pivot.pivot_table(db, trials, pivot.Layout(rows=("routine",), columns=("id",)))
            columns = pivot_view.view(table).columns
            assert {column.kind for column in columns if column.side} == {kind}
