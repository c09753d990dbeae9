"""cProfile's files: numbers equal pstats', hostile marshal data do no harm."""

from __future__ import annotations

import contextlib
import cProfile
import marshal
import profile as plain_profile
import pstats
import re
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.errors import FormatError
from taupy.formats import pstats_
from taupy.formats.marshal_ import Damaged, Reader
from taupy.formats.registry import exported
from taupy.model.progress import SILENT
from tests.builders import gpu_profile, small_profile
from tests.unit.formats.comparing import flat_by_name, one, read, short_paths

PROGRAM = """
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def even(n):
    return True if n == 0 else odd(n - 1)
def odd(n):
    return False if n == 0 else even(n - 1)
def main():
    fib(12)
    for n in range(20):
        even(n)
    sorted(range(50), key=lambda x: -x)
main()
"""


def name(key):
    file, line, routine = key
    if match := re.match(r"<code object (\S+).*, line (\d+)>", str(routine)):
        routine = f"<code object {match[1]}, line {match[2]}>"
    return routine if file == "~" else f"{routine} [{{{file}}}{{{line}}}]"


def ns(seconds):
    return round(seconds * 1e9)


@pytest.fixture(params=[cProfile.Profile, plain_profile.Profile])
def dumped(request, tmp_path):
    profiler = request.param()
    names = {"__name__": "x"}
    profiler.runctx(compile(PROGRAM, "/home/u/prog.py", "exec"), names, names)
    file = tmp_path / "prog.prof"
    profiler.dump_stats(file)
    return file


def test_totals_are_those_of_pstats(dumped):
    profile = one(pstats_, dumped)
    theirs = pstats.Stats(str(dumped)).stats
    entered = {}
    for _, _, _, _, callers in theirs.values():
        for caller, part in callers.items():
            calls = part if isinstance(part, int) else part[0]
            entered[name(caller)] = entered.get(name(caller), 0) + calls
    ours = flat_by_name(profile, profile.threads[0])
    for key, (_, calls, own, cumulative, _) in theirs.items():
        if calls:
            found = ours[name(key)]
            expected = (calls, entered.get(name(key), 0), ns(cumulative), ns(own))
            assert found == expected, key
    assert len([k for k, v in theirs.items() if v[1] or name(k) in ours]) == len(ours)


def test_a_recursive_routines_time_is_pstats_in_a_file_of_many_routines(tmp_path):
    # cProfile's callers of a recursive routine may sum up to more than its total: here 400 ns.
    def of(number):
        return ("/x/lib.py", number, f"f{number}")

    stats = {of(n): (1, 1, 1e-6, 1e-6, {}) for n in range(600)}
    callers = {of(1): (1, 1, 2e-7, 4e-7), of(2): (9, 9, 9.8e-6, 2.528230)}
    stats["/x/lib.py", 1, "deep"] = (9, 10, 1e-5, 2.528230, callers)
    file = tmp_path / "many.prof"
    file.write_bytes(marshal.dumps(stats))
    profile = one(pstats_, file)
    found = flat_by_name(profile, profile.threads[0])
    assert found["deep [{/x/lib.py}{1}]"] == (10, 0, 2_528_230_000, 10_000)


def test_callers_are_those_of_pstats(tmp_path):
    profiler = cProfile.Profile()
    names = {"__name__": "x"}
    profiler.runctx(compile(PROGRAM, "/home/u/prog.py", "exec"), names, names)
    file = tmp_path / "prog.prof"
    profiler.dump_stats(file)
    profile = one(pstats_, file)
    found = {}
    for path, (calls, _, _, exclusive) in short_paths(profile, profile.threads[0]).items():
        routines = path.split(" > ")
        if len(routines) > 1 and calls:
            assert (*routines[-2:],) not in found or routines[-2].startswith("(callers")
            found[tuple(routines[-2:])] = (calls, exclusive)
    for key, (_, _, _, _, callers) in pstats.Stats(str(file)).stats.items():
        for caller, (calls, _, own, _) in callers.items():
            assert found[name(caller), name(key)] == (calls, ns(own))


def test_what_is_written_is_what_was_read(dumped, tmp_path):
    target = tmp_path / "back.prof"
    pstats_.write(one(pstats_, dumped), target, SILENT)
    ours, theirs = pstats.Stats(str(target)).stats, pstats.Stats(str(dumped)).stats

    def rounded(stats):
        return {
            name(key): (calls, ns(own), ns(whole))
            for key, (_, calls, own, whole, _) in stats.items()
            if calls
        }

    assert rounded(ours) == rounded(theirs)


def test_our_trial_opens_in_pstats(tmp_path):
    target = tmp_path / "x.prof"
    lost = exported(small_profile(), pstats_.FORMAT, target, SILENT)
    stats = pstats.Stats(str(target)).stats
    f = stats["/home/u/app.py", 3, "f"]
    # f: 2 calls from <module>, primitive ones, and 3 from itself; 50 ns own, 90 ns outermost.
    assert f[:4] == (2, 5, 50 / 1e9, 90 / 1e9)
    # Of callers, pstats has all calls first.
    assert {caller[2]: part[:2] for caller, part in f[4].items()} == {
        "<module>": (2, 2),
        "f": (3, 0),
    }
    assert "the times of 2 threads are summed" in " ".join(lost)


def test_gpu_time_is_not_added_to_host_time(tmp_path):
    target = tmp_path / "x.prof"
    lost = exported(gpu_profile(), pstats_.FORMAT, target, SILENT)
    assert {key[2] for key in pstats.Stats(str(target)).stats} == {
        ".taupy application", "<module>", "step", "cudaLaunchKernel", "cudaMemcpyAsync"
    }  # fmt: skip
    assert any("2 streams of GPUs" in line for line in lost)


KEY = ("f.py", 1, "f")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (marshal.dumps({}), "no routines"),
        (marshal.dumps([1]), "no routines"),
        (marshal.dumps({KEY: (1, 1, 0.0, 0.0)}), "routine 1: not "),
        (marshal.dumps({KEY: (1, 1, 0.0, 0.0, [])}), "routine 1: not "),
        (marshal.dumps({("f.py", "1", "f"): (1, 1, 0.0, 0.0, {})}), "not .file, line, name"),
        (marshal.dumps({KEY: (1, 1, "0", 0.0, {})}), "not valid numbers"),
        (marshal.dumps({KEY: (1, 1, float("nan"), 0.0, {})}), "not valid numbers"),
        (marshal.dumps({KEY: (1, 1, 0.0, 1e300, {})}), "not valid numbers"),
        (marshal.dumps({KEY: (1 << 70, 1, 0.0, 0.0, {})}), "not valid numbers"),
        (marshal.dumps({KEY: (1, 1, 0.0, 0.0, {KEY: (1,)})}), "not valid numbers"),
        (marshal.dumps({KEY: (1, 1, 0.0, 0.0, {})})[:-4], "ends in the middle"),
        (b"{)\x03?", "type '.?'"),
        (b"{(\xff\xff\xff\x7f", "a size of 2147483647"),
        (b"{)\x03" + b")\x01" * 5000, "nested more than"),
        (b"{)\x03r\x05\0\0\0", "a reference to value 5"),
        (b"", "ends in the middle"),
    ],
)
def test_what_is_no_pstats_file_is_refused(tmp_path, content, reason):
    file = tmp_path / "bad.prof"
    file.write_bytes(content)
    with pytest.raises(FormatError, match=reason) as refused:
        read(pstats_, file)
    assert str(refused.value).startswith(f"{file}: ")


def m(value):
    """One value as marshal writes it, without references."""
    return marshal.dumps(value, 2)


def code_object(layout):
    """One named `<module>` at line 1, as Pythons of these layouts write it."""
    numbers = {"2": 4, "3.6": 5, "3.8": 6, "3.11": 5}[layout] * [0x73]
    names = (m(()), m(()), m(())) if layout != "3.11" else (m(("x",)), m(b" "))
    name = m("<module>") * (2 if layout == "3.11" else 1)
    parts = [m(b"co\0de"), m((None, 1, "x")), m(("print",)), *names, m("/home/u/p.py"), name]
    tables = m(b"tab") * (2 if layout == "3.11" else 1)
    return (
        b"c"
        + struct.pack(f"<{len(numbers)}i", *numbers)
        + b"".join(parts)
        + (struct.pack("<i", 1) + tables)
    )


def test_code_objects_may_share_their_code():
    shared = b"\xf3" + struct.pack("<i", 4) + b"code"  # value 0
    second = code_object("3.8").replace(m(b"co\0de"), b"r" + struct.pack("<i", 0))
    first = code_object("3.8").replace(m(b"co\0de"), shared)
    assert Reader(b")\x02" + first + second).value() == ("<code object <module>, line 1>",) * 2


@pytest.mark.parametrize("layout", ["2", "3.6", "3.8", "3.11"])
def test_the_module_profile_of_any_python_names_what_it_ran(tmp_path, layout):
    # profile.Profile.run has the code object for a name: ('profile', 0, <code object ...>).
    key = b"(" + struct.pack("<i", 3) + m("profile") + m(0) + code_object(layout)
    stats = m((1, 1, 0.25, 0.5, {}))
    file = tmp_path / "any.prof"
    file.write_bytes(b"{" + key + stats + m(("/p.py", 3, "f")) + m((2, 2, 0.25, 0.25, {})) + b"0")
    profile = one(pstats_, file)
    assert flat_by_name(profile, profile.threads[0]) == {
        "<code object <module>, line 1> [{profile}{0}]": (1, 0, 500_000_000, 250_000_000),
        "f [{/p.py}{3}]": (2, 0, 250_000_000, 250_000_000),
    }


def test_python_2s_dumps_are_read(tmp_path):
    def text(value):
        return b"s" + struct.pack("<i", len(value)) + value

    def interned(value):
        return b"t" + text(value)[1:]

    def triple(*parts):
        return b"(" + struct.pack("<i", 3) + b"".join(parts)

    first = triple(interned(b"/x.py"), m(1), text(b"caf\xc3\xa9"))
    second = triple(b"R" + struct.pack("<i", 0), m(9), interned(b"g"))  # the same file
    caller = b"{" + first + m((2, 2, 0.1, 0.1)) + b"0"
    stats = b"(" + struct.pack("<i", 5) + m(2) + m(2) + m(0.1) + m(0.1) + caller
    file = tmp_path / "two.prof"
    file.write_bytes(b"{" + first + m((1, 1, 0.2, 0.3, {})) + second + stats + b"0")
    assert pstats_.recognises(file, file.read_bytes())
    profile = one(pstats_, file)
    assert flat_by_name(profile, profile.threads[0]) == {
        "café [{/x.py}{1}]": (1, 2, 300_000_000, 200_000_000),
        "g [{/x.py}{9}]": (2, 0, 100_000_000, 100_000_000),
    }


MARSHALLED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.tuples(inner, inner) | st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(value=MARSHALLED, version=st.integers(0, 4))
def test_what_marshal_writes_is_read_as_marshal_reads_it(value, version):
    data = marshal.dumps(value, version)
    assert Reader(data).value() == marshal.loads(data)


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=60))
def test_arbitrary_bytes_are_read_or_damaged_never_more(data):
    with contextlib.suppress(Damaged):
        Reader(b"{" + data).value()


def test_recognised_by_content(dumped, tmp_path):
    assert pstats_.recognises(dumped, dumped.read_bytes())
    assert not pstats_.recognises(dumped, b'{"json": 1}')
    assert not pstats_.recognises(dumped, b"")
