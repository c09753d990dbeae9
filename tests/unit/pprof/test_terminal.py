import csv
import io
import json
import math
import re
import sys
from dataclasses import replace

import pytest
from rich.table import Table

from taupy.pprof import table, terminal, text
from taupy.pprof.view import Column, View

ROUTINES = View(
    "A TABLE:",
    [
        Column("percent", "percent", "%Time"),
        Column("exclusive_ns", "tau_time", "Exclusive\nmsec", width=12),
        Column("calls", "int", "#Call"),
        Column("outline", "text", "Name", audience="people"),
        Column("timer", audience="machines"),
    ],
    [(99.5, 34_000_000, 1, "└ main", "main"), (1.25, 1_234_567_890, 20, "  └ f", "f")],
    ["two routines"],
)
EVIL = "x\x1b[31m\n\t\u202eevil\x9b\u2028\ud800"


def shown(view, form="text", **how):
    out = io.StringIO()
    terminal.show(view, form, out, **how)
    return out.getvalue()


def one_text(value, heading="Name"):
    return View("", [Column("name", "text", heading)], [(value,)])


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _no_color_settings(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


# --- text --------------------------------------------------------------------


def test_text_stands_under_its_headings():
    assert shown(ROUTINES) == (
        "A TABLE:\n"
        "-------------------------------\n"
        "%Time    Exclusive #Call Name\n"
        "              msec\n"
        "-------------------------------\n"
        " 99.5           34     1 └ main\n"
        "  1.2        1,234    20   └ f\n"
        "-------------------------------\n"
        "note: two routines\n"
    )


def test_several_views_are_parted_by_an_empty_line():
    out = io.StringIO()
    terminal.show_all([ROUTINES, ROUTINES], stream=out)
    assert out.getvalue() == shown(ROUTINES) + "\n" + shown(ROUTINES)


@pytest.mark.parametrize("form", ["text", "csv", "json", "markdown"])
def test_no_name_can_reach_the_terminal_with_its_control_characters(form):
    for view in (one_text(EVIL), one_text("x", heading=""), View(EVIL, [Column(EVIL)], [])):
        made = shown(view, form)
        assert not set(made) & {"\x1b", "\t", "\u202e", "\x9b", "\u2028", "\ud800"}
        made.encode("utf-8")
    assert "note" in shown(View("", [Column("a")], [], [EVIL])).splitlines()[-1]


def test_absent_is_not_zero():
    view = View("", [Column("a", "tau_time", says_empty=True), Column("b", "int")], [(None, 0)])
    assert shown(view).splitlines()[-1] == "  0"
    assert shown(view, "csv") == "a,b\n,0\n"
    assert json.loads(shown(view, "json"))["rows"] == [{"a": None, "b": 0}]


def test_columns_of_free_queries_stand_right_where_they_hold_numbers():
    view = View("", [Column("name", "any"), Column("n", "any")], [("a", 1), ("b", 20.5)])
    assert shown(view).splitlines()[-2:] == ["a       1", "b    20.5"]
    assert shown(View("", [Column("b", "any")], [(b"\x00\xff",)])).endswith("x'00ff'\n")


# --- terminal ----------------------------------------------------------------


def test_in_a_pipe_there_is_no_color_and_tables_have_200_columns():
    name = "n" * 500
    made = shown(replace(one_text(name), title="t " * 200, notes=["word " * 100]))
    assert "\x1b" not in made
    assert name not in made
    cut = next(line for line in made.splitlines() if "…" in line)
    assert len(cut) == terminal.IN_A_PIPE == 200
    assert ("t " * 200).strip() in made and ("word " * 100).strip() in made  # for grep


def test_a_reason_is_wrapped_in_a_pipe_and_never_cut():
    columns = [Column("name"), Column("why", sentence=True)]
    rows = [("n" * 300, "because " * 50), ("short", "so")]
    made = shown(View("", columns, rows))
    assert made.count("because") == 50 and "n" * 300 not in made and made.endswith(" so\n")
    assert max(map(len, made.splitlines())) <= 200
    assert ("because " * 50).strip() in shown(View("", columns, rows), "wide")


@pytest.mark.parametrize("color", [False, True])
def test_a_reason_stands_below_its_row_in_a_narrow_window_and_is_never_cut(color):
    columns = [Column("name"), Column("why", sentence=True)]
    view = View(
        "", columns, [("a" * 20, "because " * 12), ("b" * 20, None), ("c" * 20, "so " * 30)]
    )
    lines = shown(view, width=60, color=color).splitlines()
    assert color or max(map(text.width, lines)) <= 60
    made = "\n".join(lines)
    assert made.count("because") == 12 and made.count("so") == 30 and "…" not in made
    places = [made.index(part) for part in ("a" * 20, "because", "b" * 20, "c" * 20, "so")]
    assert places == sorted(places)


@pytest.mark.parametrize("form", ["text", "wide", "markdown"])
@pytest.mark.parametrize("width", [60, 120, 0])
def test_people_see_no_empty_column_except_where_it_is_an_answer(form, width):
    columns = [Column("name"), *(Column(f"number {at}", "int") for at in range(8))]
    columns[1] = replace(columns[1], says_empty=True)
    view = View("", columns, [("a" * 20, *[None] * 5, 1, 2, 3), ("b" * 20, *[None] * 5, 4, "", 6)])
    made = shown(view, form, width=width)
    numbers = [at for at in range(8) if f"number {at}" in made]
    assert numbers == [0, 5, 6, 7] and "not shown" not in made
    assert "number 4" in shown(replace(view, rows=[]), form, width=width)
    query = replace(view, columns=[replace(column, kind="any") for column in columns])
    assert "number 4" in shown(query, form, width=0)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_programs_get_empty_columns(form):
    columns = [Column("name"), Column("empty", "int"), Column("nothing", silent_zero=True)]
    view = View("", columns, [("a", None, 0)])
    assert "empty" in shown(view, form) and "nothing" in shown(view, form)


@pytest.mark.parametrize("form", ["text", "wide", "markdown"])
def test_people_see_no_column_of_zeros_where_a_zero_is_nothing(form):
    names = ("whole", "disk", "cpu")
    columns = [Column(name, "time_ns", silent_zero=name != "whole") for name in names]
    view = View("", [*columns, Column("name")], [(0, 0, 5, "f"), (0, None, 0, "g")])
    made = shown(view, form)
    assert [name for name in names if name in made] == ["whole", "cpu"]


def test_a_range_is_not_cut():
    columns = [Column("name"), Column("other"), Column("ratio", "range"), Column("last")]
    view = View("", columns, [("a" * 30, "b" * 20, "1.234 .. 5.678", "c" * 20)])
    for window in range(20, 100):
        made = shown(view, width=window)
        assert ("1.234 .. 5.678" in made) != ("ratio" in made.partition("not shown")[2])


def test_wide_text_is_not_cut_anywhere(monkeypatch):
    name = "n" * 500
    assert name in shown(one_text(name), "wide")
    monkeypatch.setenv("COLUMNS", "48")
    out = Terminal()
    terminal.show(one_text(name), "wide", stream=out)
    assert name in out.getvalue()


def test_on_a_terminal_lines_fit_and_hot_rows_glow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "48")
    out = Terminal()
    rows = [(99.5, 1, 1, "f" * 100, ""), (1.0, 1, 1, "g", "")]
    terminal.show(View("T", ROUTINES.columns, rows), stream=out)
    lines = out.getvalue().splitlines()
    assert any("\x1b[1;31m" in line and "…" in line for line in lines)
    plain = io.StringIO()
    terminal.show(View("T", ROUTINES.columns, rows), stream=plain, width=48)
    assert max(map(len, plain.getvalue().splitlines())) == 48
    assert lines[-1] == plain.getvalue().splitlines()[-1]  # a cold row has no color


SPECIAL = ["[bold]x[/]", ":smile:", "日本" * 30, "a => " + "c" * 90, "e\u0301" * 40, "", " x "]


@pytest.mark.parametrize("width", [0, 20, 48, 80])
@pytest.mark.parametrize("rows", [0, 1, table.SMALL, table.SMALL + 1])
def test_a_terminal_shows_the_text_that_a_pipe_gets(rows, width):
    names = [SPECIAL[at % len(SPECIAL)] for at in range(rows)]
    routines = [(100 / (at + 1), at, at, name, "") for at, name in enumerate(names)]
    for columns in (ROUTINES.columns, [Column("name", "text", "")]):
        view = View("T", columns, [row[: len(columns)] for row in routines], ["a note"])
        colored = shown(view, width=width, color=True)
        assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == shown(view, width=width, color=False)


def test_small_tables_are_drawn_by_rich(monkeypatch):
    drawn = []
    add_row = Table.add_row
    monkeypatch.setattr(Table, "add_row", lambda *a, **k: drawn.append(add_row(*a, **k)))
    for rows in (table.SMALL, table.SMALL + 1):
        shown(View("T", ROUTINES.columns, ROUTINES.rows[:1] * rows), color=True)
    assert len(drawn) == table.SMALL


WIDE = View(
    "",
    [
        Column("percent", "percent", "%Time"),
        *(Column(f"n{at}", "int", f"Number {at}", width=14) for at in range(5)),
        Column("verdict", "text", "Verdict"),
        Column("when", "text", "Started (UTC)", spare=True),
        Column("name", "text", "Name"),
    ],
    [(50.0, *range(5), "slower", "2026-11-21 10:43:51", "a_name_" * 20 + "end")],
    ["a remark of many words that has no place on one line of a narrow window"],
)


@pytest.mark.parametrize("width", [60, 72, 80, 100, 140])
def test_a_narrow_window_shortens_names_and_leaves_out_whole_columns(width):
    made = shown(WIDE, width=width)
    lines = made.splitlines()
    assert max(map(len, lines)) <= width
    row = next(line for line in lines if line.startswith(" 50.0"))
    assert "…" in row and row.endswith("end") and "slower" in row
    assert len(row.split()[-1]) >= 12  # of the name, enough to know it by
    note = " ".join(made[made.index("note: not shown") :].split()) if "not shown" in made else ""
    for heading, value in [("Started (UTC)", "2026-11-21 10:43:51"), ("Number 4", " 4 ")]:
        assert (heading in note) != (value in row)


def test_a_long_title_is_wrapped():
    title = "a title of many words that has no place on one line of a narrow window"
    assert " ".join(shown(replace(WIDE, title=title), width=40).split("---")[0].split()) == title


def test_room_around_numbers_is_given_up_before_a_name_is_cut():
    made = shown(WIDE, width=80 + len(WIDE.rows[0][-1]))
    assert WIDE.rows[0][-1] in made and "not shown" not in made


@pytest.mark.parametrize(
    ("settings", "terminal_there", "colored"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_color_follows_the_terminal_and_the_environment(
    monkeypatch, settings, terminal_there, colored
):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert terminal.wants_color(Terminal() if terminal_there else io.StringIO()) is colored


def test_a_long_name_is_cut_in_the_middle_and_keeps_both_ends():
    assert text.cut("forward [{deep/down/net.py}{12}]", 15) == "forward…y}{12}]"
    assert text.width(text.cut("長い名前の関数です", 8)) <= 8
    assert text.cut("ab", 1) == "…"
    assert text.cut("ab", 2) == "ab"


def test_wide_letters_count_twice_and_columns_still_align():
    view = View("", [Column("name"), Column("n", "int")], [("関数", 1), ("ab", 2)])
    assert shown(view).splitlines()[-2:] == ["関数 1", "ab   2"]


def test_a_narrow_encoding_gets_escapes_and_plain_lines():
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    terminal.show(one_text("├ │ └ caf\u00e9"), stream=out)
    assert raw.getvalue().decode("ascii").splitlines()[-1] == r"| | ` caf\xe9"


def test_rich_is_not_imported_where_there_is_no_color():
    import subprocess

    code = (
        "import sys; from taupy.pprof import terminal; from taupy.pprof.view import *;"
        "terminal.show(View('', [Column('a')], [('x',)]));"
        "print(sorted({'rich', 'pandas', 'numpy', 'sqlite_utils'} & set(sys.modules)))"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.endswith("[]\n")


def test_a_reader_that_went_away_is_noticed_at_once():
    class Gone(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        terminal.show(ROUTINES, stream=Gone())


# --- CSV, JSON, Markdown -----------------------------------------------------


def test_csv_holds_whole_values_under_names_with_units():
    assert shown(ROUTINES, "csv") == (
        "percent,exclusive_ns,calls,timer\n99.5,34000000,1,main\n1.25,1234567890,20,f\n"
    )


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_csv_text_is_no_formula(formula):
    (_, (cell,)) = csv.reader(io.StringIO(shown(one_text(formula), "csv")))
    assert cell == "'" + formula
    number = View("", [Column("n", "int")], [(-1,)])
    assert shown(number, "csv") == "n\n-1\n"


def test_csv_of_several_views_has_one_header_where_columns_are_the_same():
    out = io.StringIO()
    a = View("A", [Column("x", "int")], [(1,)])
    b = View("B", [Column("x", "int")], [(2,)])
    c = View("C", [Column("y", "int")], [(3,)])
    terminal.show_all([a, b, c], "csv", out)
    assert out.getvalue() == "x\n1\n2\n\ny\n3\n"


def test_json_is_exact():
    view = View("t", [Column("name"), Column("v", "float")], [(EVIL, 0.1 + 0.2), ("b", math.nan)])
    made = json.loads(shown(view, "json"))
    assert made == {
        "title": "t",
        "rows": [{"name": EVIL, "v": 0.1 + 0.2}, {"name": "b", "v": None}],
        "notes": [],
    }
    out = io.StringIO()
    terminal.show_all([ROUTINES, ROUTINES], "json", out)
    both = json.loads(out.getvalue())
    assert [one["notes"] for one in both] == [["two routines"]] * 2
    assert both[0]["rows"][0] == {
        "percent": 99.5,
        "exclusive_ns": 34000000,
        "calls": 1,
        "timer": "main",
    }
    assert shown(View("", [], []), "json") == '{"title": "",\n "rows": [],\n "notes": []}\n'


def test_markdown_shows_names_as_they_are():
    assert shown(View("T_1", [Column("n", "int", "#\nCall"), Column("x")], [(1, "a|b*")]),
                 "markdown") == (
        "### T\\_1\n\n| \\# Call | x |\n| ---: | --- |\n| 1 | a\\|b\\* |\n"
    )  # fmt: skip


def test_columns_that_are_left_out_are_named_by_their_headings():
    """By both lines of one that has two, and without room for a second line of one that has not."""
    spare = [Column("size", "int", "Size", width=20, spare=True),
             Column("calls", "int", "Number\nof calls", width=20, spare=True)]  # fmt: skip
    view = View("", [Column("name", "text", "Name"), *spare], [("f" * 40, 10**16, 10**16)])
    said = " ".join(shown(view, width=24).split())
    assert "narrow window: Size, Number of calls (use --csv)" in said


def test_columns_are_left_out_before_a_name_becomes_unreadable():
    lines = shown(WIDE, width=80).splitlines()
    row = next(line for line in lines if line.startswith(" 50.0"))
    assert len(row.split()[-1]) >= 30  # three eighths of the window


@pytest.mark.parametrize(
    ("limit", "shown_as"),
    [
        (0, "main => train => Net.forward"),
        (28, "main => train => Net.forward"),
        (27, "… => train => Net.forward"),
        (24, "… => Net.forward"),
        (16, "… => Net.forward"),
        (15, "Net.forward"),
        (9, "Net.…ward"),
    ],
)
def test_a_call_path_is_cut_at_its_root(limit, shown_as):
    assert text.cut("main => train => Net.forward", limit) == shown_as
