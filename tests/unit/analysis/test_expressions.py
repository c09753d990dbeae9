"""What a part of a line does, in few words."""

import pytest

from taupy.analysis.expressions import Expressions, excerpt

SOURCE = """\
rows = [row for row in con.execute("select é") if row not in seen]
total = json.dumps(data)[0] + frame.groupby("a").agg(max)
await session.get(url)
value = other
(out / "a.txt").write_text(page)
"""


def at(line, text):
    source = SOURCE.split("\n")[line - 1]
    begin = len(source[: source.index(text)].encode())
    return Expressions(SOURCE.split("\n")).at(line, line, begin, begin + len(text.encode()))


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        (1, 'con.execute("select é")', "con.execute()"),
        (1, "row not in seen", "not in seen"),
        (2, "json.dumps(data)", "json.dumps()"),
        (2, "json.dumps(data)[0]", "json.dumps(data)[0]"),
        (2, 'frame.groupby("a").agg(max)', "frame.groupby().agg()"),
        (4, "other", None),
        (5, '(out / "a.txt").write_text(page)', "(out / 'a.txt').write_text()"),
    ],
)
def test_what_is_there_is_said_in_few_words(line, text, said):
    assert at(line, text) == said


def test_columns_count_bytes():
    assert at(1, "row not in seen") == "not in seen", "there is an é before it"


@pytest.mark.parametrize("lines", [["def ("], ["x = 1\0"], [], ["(" * 5000]])
def test_what_cannot_be_parsed_has_no_expressions(lines):
    assert Expressions(lines).at(1, 1, 0, 5) is None
    assert Expressions(lines).at(1, 1, -1, -1) is None


def test_long_ones_are_cut():
    long = "call(" + "a" * 100 + ")"
    line = f"{'b' * 90}()"
    text = Expressions([line]).at(1, 1, 0, len(line))
    assert len(text) == 60 and text.endswith("...")
    assert Expressions([long]).at(1, 1, 0, len(long)) == "call()"


TEXT = "scores, seen = normalise(np.asarray(rows)), model.transform(batch).sum(axis=1, dtype=float)"


@pytest.mark.parametrize(
    "length, does, said",
    [
        (40, "", "scores, seen = normalise(np.asarray(row…"),
        (40, "normalise()", "scores, seen = normalise(np.asarray(row…"),
        (40, "model.transform() ~1.20 s", "…model.transform(batch).sum(axis=1, dty…"),
        (40, "await model.transform().sum()", "…sum(axis=1, dtype=float)"),
        (30, "form()", "scores, seen = normalise(np.a…"),
        (30, "model.transform().sum()", "…sum(axis=1, dtype=float)"),
        (99, "model.transform()", TEXT),
        (1, "model.transform()", "…"),
    ],
)
def test_what_is_cut_of_a_line_is_not_what_takes_its_time(length, does, said):
    short = excerpt(TEXT, length, does)
    assert short == said
    assert len(short) <= length or short == TEXT


def test_what_takes_time_may_be_no_call():
    text = "fresh = [word for word in words if word.strip() and word.lower() not in seen_before]"
    assert excerpt(text, 30, "not in seen_before") == "…not in seen_before]"
