"""Tables of programs that were only looked at."""

from taupy.pprof import figures
from taupy.pprof.cells import FORMATS
from taupy.pprof.estimated import marked
from taupy.pprof.view import Column, View


def test_times_and_shares_are_marked_and_calls_are_unknown():
    from taupy.model.metric import TIME

    columns = [*figures.value_columns(TIME), Column("calls", heading="Mostly in")]
    view = marked(View("", columns, [(50.0, 2_000_000, 4_000_000, 0, 0, None, "f()")]))
    row = [
        FORMATS[column.kind](cell) for column, cell in zip(view.columns, view.rows[0], strict=True)
    ]
    assert row == ["~50.0", "~2", "~4", "", "", "", "f()"]
    assert [column.heading[0] for column in view.columns[:3]] == ["~"] * 3


def test_what_is_an_estimate_already_has_one_mark():
    column = Column("time_ns", "about_ns", "~Time")
    assert marked(View("", [column], [(1,)])).columns == [column]
