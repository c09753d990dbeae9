"""Austin's samples: what its header says they count, whose they are, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.errors import FormatError
from taupy.formats import austin, registry
from taupy.model import invariants
from taupy.model.profile import Metric
from tests.unit.formats.comparing import one, read

HEADER = "# austin: 3.4.1\n# interval: 100\n# mode: wall\n# multiprocess: on\n\n"
FILE = (
    HEADER
    + "P7;T7;/x/app.py:<module>:3;/x/app.py:work:12 100\n"
    + "P7;T7;/x/app.py:<module>:3;/x/app.py:work:13 50\n"
    + "P7;T7;/x/app.py:<module>:4;C:\\lib\\a.py:f:2 7\n"
    + "P7;T0:9;/x/app.py:work:12 1000\n"
    + "P8;T8 21\n# duration: 1038089\n# saturation: 0/891\n"
)


def inclusive(profile, number):
    measured = profile.threads[number]
    (column,) = measured.tree.inclusive.values()
    return {
        profile.timers[timer].full_name: value
        for timer, value in zip(measured.tree.timer, column, strict=True)
    }


def test_a_routine_is_one_whatever_line_it_was_at(tmp_path):
    file = tmp_path / "x.austin"
    file.write_text(FILE)
    assert registry.recognised(file).name == "austin"
    profile = one(austin, file)
    assert invariants.check(profile) == []
    assert inclusive(profile, 0) == {
        "<module> [{/x/app.py}]": 157_000, "work [{/x/app.py}]": 150_000,
        "f [{C:\\lib\\a.py}]": 7_000,
    }  # fmt: skip
    assert inclusive(profile, 1)["work [{/x/app.py}]"] == 1_000_000
    places = [(t.thread.node, t.thread.thread, t.thread.name) for t in profile.threads]
    assert places == [(0, 0, "P7 T7"), (0, 1, "P7 T0:9"), (1, 0, "P8 T8")]
    assert profile.metadata["austin duration"] == "1038089"
    assert profile.metadata["austin mode"] == "wall"


def test_samples_of_negative_time_are_left_out_and_noted(tmp_path):
    file = tmp_path / "x.austin"
    file.write_text(HEADER + "P7;T7;/x/app.py:work:12 -100\nP7;T7;/x/app.py:work:12 7\n")
    profile = one(austin, file)
    assert inclusive(profile, 0)["work [{/x/app.py}]"] == 7_000
    assert profile.metadata[registry.IMPORT_NOTES] == "omitted: 1 sample of negative time"


def test_mode_cpu_is_cpu_time(tmp_path):
    file = tmp_path / "x.austin"
    file.write_text(FILE.replace("wall", "cpu"))
    assert one(austin, file).metrics == [Metric("cpu_time", "ns")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            FILE.replace("wall", "full").replace(" 100\n", " 100,0,8\n"),
            "line 6: austin mode 'full'",
        ),
        (FILE.replace("# mode: wall\n", ""), "line 5: austin mode ''"),
        (FILE.replace("T7;/x/app.py:<module>:3;/x/app.py:work:12 100", "T7;x"), "line 6: expected"),
        (HEADER, "contains no stack"),
    ],
)
def test_what_is_not_read_is_refused_with_its_line(tmp_path, content, reason):
    file = tmp_path / "x.austin"
    file.write_text(content)
    with pytest.raises(FormatError, match=reason) as refused:
        read(austin, file)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=80), at=st.integers(0, len(FILE)))
def test_any_bytes_are_read_or_refused_never_more(tmp_path_factory, data, at):
    file = tmp_path_factory.mktemp("any") / "x.austin"
    file.write_bytes(FILE.encode()[:at] + data + FILE.encode()[at:])
    try:
        for profile in read(austin, file):
            assert invariants.check(profile) == []
    except FormatError as problem:
        assert "\n" not in str(problem)
