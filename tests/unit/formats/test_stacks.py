"""Collapsed stacks and speedscope: stacks with weights, both ways."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from array import array
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.errors import FormatError
from taupy.formats import collapsed, perfetto, pprof_proto, pstats_, registry, speedscope
from taupy.formats.chrome import trace as chrome
from taupy.formats.registry import exported
from taupy.formats.tau import profiles as tau
from taupy.model import invariants
from taupy.model.gpu import Activity
from taupy.model.profile import CallTree, Metric, Timer
from taupy.model.progress import SILENT
from tests.builders import call, gpu_profile, host, profile_of, random_profile, small_profile
from tests.unit.formats.comparing import one, paths, read

# --- collapsed ---------------------------------------------------------------


def collapsed_file(folder, text, name="x.collapsed"):
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def weights(profile, metric="time", measured=None):
    """Names of a stack -> exclusive, where it is not 0."""
    measured = measured or profile.threads[0]
    return {
        tuple(name for name, _ in path): values[metric][1]
        for path, (_, _, values) in paths(profile, measured).items()
        if metric in values and values[metric][1]
    }


def test_stacks_of_others_become_samples(tmp_path):
    profile = one(collapsed, collapsed_file(tmp_path, "main;f 10\nmain;f;g 20\nmain 5\nmain;f 1\n"))
    assert profile.metrics == [Metric("samples", "count")]
    assert weights(profile, "samples") == {
        ("main",): 5, ("main", "f"): 11, ("main", "f", "g"): 20
    }  # fmt: skip
    assert profile.threads[0].tree.inclusive["samples"].tolist() == [36, 31, 20]
    assert invariants.check(profile) == []


@pytest.mark.parametrize(
    ("text", "stacks"),
    [
        ("a b;c d 3\n", {("a b", "c d"): 3}),
        ("a 1 2\n", {("a 1",): 2}),
        ("a;b\t7\r\n\n", {("a", "b"): 7}),
        ("# remark 1\na;b 1.5\n", {("a", "b"): 1.5}),
        ("a;;b 2\n", {("a", "", "b"): 2}),
        ("é;∑ 2", {("é", "∑"): 2}),
        (b"\xff;a 1\n", {("\\xff", "a"): 1}),
        ("a 1\nb 2\n", {(".taupy application", "a"): 1, (".taupy application", "b"): 2}),
    ],
)
def test_lines_of_all_kinds_are_read(tmp_path, text, stacks):
    profile = one(collapsed, collapsed_file(tmp_path, text))
    assert weights(profile, "samples") == stacks


def test_threads_and_lines_of_tachyon_are_threads_and_routines(tmp_path):
    text = """\
tid:7001;/app/p.py:<module>:20;/app/p.py:foo:7;/app/p.py:foo:5 40
tid:7001;/app/p.py:<module>:21;/app/p.py:foo:9 10
tid:7002;/lib/threading.py:Thread.run:10;/app/p.py:work:31;<GC>:<GC>:0 5
"""
    profile = one(collapsed, collapsed_file(tmp_path, text))
    assert [measured.thread.native_id for measured in profile.threads] == [7001, 7002]
    first, second = (weights(profile, "samples", measured) for measured in profile.threads)
    module, foo = "<module> [{/app/p.py}]", "foo [{/app/p.py}]"
    assert first == {(module, foo, foo): 40, (module, foo): 10}
    assert second == {("Thread.run [{/lib/threading.py}]", "work [{/app/p.py}]", "<GC>"): 5}
    assert len(profile.timers) == 5


def test_lines_processes_and_threads_of_py_spy_are_routines_nodes_and_threads(tmp_path):
    """`py-spy record -f raw -s -t`; a command may hold semicolons."""
    main = 'process 100:"python -c import a; a.run()";thread (100): MainThread;'
    child = 'process 100:"python -c import a; a.run()";process 101:"python w.py";'
    text = (
        main + "<module> (a.py:3);load (src/my (own)/io.py:10) 4\n"
        + main + "<module> (a.py:4);load (src/my (own)/io.py:12);load (src/my (own)/io.py:12) 1\n"
        + child + "thread (0x7F01): io;work (w.py:9);memcpy (libc.so.6) 5\n"
        + child + "thread (0x7F01): io;work (w.py:9);f (.isra.0) 2\n"
        + child + "thread (102);<module> (w.py);_find (<frozen importlib._bootstrap>:20) 3\n"
    )  # fmt: skip
    path = collapsed_file(tmp_path, text)
    assert registry.recognised(path).name == "collapsed"
    profile = one(collapsed, path)
    assert [
        (at.node, at.thread, at.name, at.native_id)
        for at in (measured.thread for measured in profile.threads)
    ] == [(0, 0, "MainThread", 100), (1, 0, "io", 0), (1, 1, "", 102)]
    assert profile.node_metadata == {
        0: {"PID": "100", "Process Name": "python -c import a; a.run()"},
        1: {"PID": "101", "Process Name": "python w.py"},
    }
    module, load, work = "<module> [{a.py}]", "load [{src/my (own)/io.py}]", "work [{w.py}]"
    assert [weights(profile, "samples", measured) for measured in profile.threads] == [
        {(module, load): 4, (module, load, load): 1},
        {(work, "memcpy [{libc.so.6}]"): 5, (work, "f (.isra.0)"): 2},
        {("<module> [{w.py}]", "_find [{<frozen importlib._bootstrap>}]"): 3},
    ]
    plain = one(
        collapsed, collapsed_file(tmp_path, "main (a.py:3);f (a.py:9) 1\nmain (a.py:5) 2\n")
    )
    assert weights(plain, "samples") == {
        ("main [{a.py}]", "f [{a.py}]"): 1, ("main [{a.py}]",): 2
    }  # fmt: skip


def test_two_numbers_of_difffolded_are_two_trials(tmp_path):
    before, after = read(collapsed, collapsed_file(tmp_path, "a;b 10 12\na;c 0 3\n\na;d 4 0\n"))
    assert (before.name, after.name, before.uuid != after.uuid) == ("before", "after", True)
    assert weights(before, "samples") == {("a", "b"): 10, ("a", "d"): 4}
    assert weights(after, "samples") == {("a", "b"): 12, ("a", "c"): 3}
    long = "a;b 10 12\n" * 8000 + "a;b 3\n"
    with pytest.raises(FormatError, match="line 8001: expected a stack followed by two numbers"):
        read(collapsed, collapsed_file(tmp_path, long))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_comments_and_every_unicode_are_read_and_recognised(tmp_path, encoding):
    """PowerShell writes UTF-16; `//` and indented `#` begin comments in files made by hand."""
    text = "# made by hand\n// main and f\n  # more\nmain;f\u00fcr 3\n\n//a;b 2\nmain;g 4"
    data = text.encode(encoding)
    path = collapsed_file(tmp_path, b"\xfe\xff" + data if encoding == "utf-16-be" else data)
    assert registry.recognised(path).name == "collapsed"
    found = weights(one(collapsed, path), "samples")
    assert {path[-2:]: weight for path, weight in found.items()} == {
        ("main", "f\u00fcr"): 3,
        ("main", "g"): 4,
        ("//a", "b"): 2,
    }


def test_packed_files_are_read(tmp_path):
    profile = one(collapsed, collapsed_file(tmp_path, gzip.compress(b"main;f 10\n")))
    assert weights(profile, "samples") == {("main", "f"): 10}


@pytest.mark.parametrize(
    ("text", "place"),
    [("a;b\n", "line 1"), ("a 1\nb x\n", "line 2"), ("a 99999999999999999999\n", "line 1"),
     ("a 9e999\n", "line 1"), ("", "no stack"), ("12\n", "line 1")],
)  # fmt: skip
def test_lines_without_a_number_are_refused(tmp_path, text, place):
    with pytest.raises(FormatError, match=place):
        read(collapsed, collapsed_file(tmp_path, text))


def test_a_line_longer_than_any_stack_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("taupy.formats.limits.LONGEST_LINE", 1000)
    with pytest.raises(FormatError, match="line 1: longer than any line"):
        read(collapsed, collapsed_file(tmp_path, "a;" * 1000 + "b 1\n"))


@pytest.mark.slow
def test_a_deep_stack_is_read_in_time(tmp_path):
    profile = one(collapsed, collapsed_file(tmp_path, "f;" * 200_000 + "f 1\n"))
    assert len(profile.threads[0].tree) == 200_001


@pytest.mark.parametrize("format", [collapsed, speedscope])
@pytest.mark.parametrize("made", [small_profile, gpu_profile])
def test_what_call_paths_did_themselves_comes_back_with_its_threads(tmp_path, format, made):
    profile = made()
    target = tmp_path / "out"
    format.write(profile, target, SILENT)
    back = one(format, target)
    ours = {m.thread: weights(profile, measured=m) for m in profile.threads}
    theirs = {m.thread: weights(back, measured=m) for m in back.threads}
    assert {(t.node, t.context, t.thread, t.kind, t.name): w for t, w in theirs.items()} == {
        (t.node, t.context, t.thread, t.kind, t.name): w for t, w in ours.items()
    }
    assert invariants.check(back) == []


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_any_profile_keeps_its_exclusive_times_in_both(tmp_path_factory, seed):
    profile = random_profile(Random(seed))
    for format in (collapsed, speedscope):
        target = tmp_path_factory.mktemp("out") / "out"
        format.write(profile, target, SILENT)
        ours = {m.thread: weights(profile, measured=m) for m in profile.threads}
        ours = {thread: found for thread, found in ours.items() if found}
        if not ours and format is collapsed:
            continue
        back = one(format, target)
        theirs = {m.thread: weights(back, measured=m) for m in back.threads}
        assert {t: w for t, w in theirs.items() if w} == ours


def test_names_that_would_part_frames_or_lines_are_changed(tmp_path):
    profile = profile_of(host(call(Timer("a;b\nc"), 1, 5)))
    target = tmp_path / "out"
    collapsed.write(profile, target, SILENT)
    assert target.read_text() == "thread 0.0.0 [ns];a:b\\nc [{None}] 5\n".replace(" [{None}]", "")


@pytest.mark.parametrize("text", ["main;f 10\nmain;f;g 20\n", "a 1\nb;c 2.5\n"])
def test_stacks_of_others_go_out_as_they_came(tmp_path, text):
    profile = one(collapsed, collapsed_file(tmp_path, text))
    collapsed.write(profile, tmp_path / "out.folded", SILENT)
    assert (tmp_path / "out.folded").read_text() == text


def test_a_trial_without_times_has_its_first_metric_in_collapsed_stacks(tmp_path):
    heap = [Metric("inuse_space", "B"), Metric("objects", "count")]
    root = call("main", 0, {"inuse_space": 3, "objects": 1}, [call("f", 0, {"inuse_space": 8})])
    profile = profile_of(host(root), metrics=heap)
    lost = exported(profile, collapsed.FORMAT, tmp_path / "heap.folded", SILENT)
    assert "metrics other than inuse_space" in " ".join(lost)
    back = one(collapsed, tmp_path / "heap.folded")
    assert back.metrics == heap[:1]
    assert weights(back, "inuse_space") == {("main",): 3, ("main", "f"): 8}


@pytest.mark.parametrize("format", [chrome, perfetto, pstats_])
def test_a_format_of_times_refuses_a_trial_without_any(tmp_path, format):
    profile = one(collapsed, collapsed_file(tmp_path, "main;f 10\n"))
    with pytest.raises(FormatError, match=r"this trial has none \(its metrics: samples"):
        format.FORMAT.write(profile, tmp_path / "out", SILENT)


@pytest.mark.parametrize("format", [collapsed, speedscope, pprof_proto, chrome, perfetto])
def test_values_that_readers_compute_differently_are_reported(tmp_path, format):
    whole = profile_of(host(call("main", 1, 5, [call("f", 1, 7)])))
    words = "whose callees are not all known"
    assert not any(words in one for one in format.FORMAT.write(whole, tmp_path / "a", SILENT))
    rows = ['"main" 1 1 5 12 0 GROUP="TAU_USER" ', '"f" 1 0 7 7 0 GROUP="TAU_USER" ']
    text = "2 templated_functions_MULTI_TIME\n# Name Calls Subrs Excl Incl ProfileCalls\n"
    (tmp_path / "profile.0.0.0").write_text(text + "\n".join(rows) + "\n0 aggregates\n")
    flat = one(tau, tmp_path)
    assert any(words in one for one in format.FORMAT.write(flat, tmp_path / "b", SILENT))


@pytest.mark.parametrize("format", [speedscope, pprof_proto, tau, collapsed])
def test_a_routine_whose_line_nobody_knows_is_named_by_its_file(tmp_path, format):
    timer = Timer("runtime.mcall", "/go/src/asm_arm64.s", None, ("SAMPLE",))
    assert timer.full_name == "runtime.mcall [{/go/src/asm_arm64.s}]"
    profile = profile_of(host(call("main", 0, 1, [call(timer, 0, 7)])))
    format.FORMAT.write(profile, tmp_path / "out", SILENT)
    back = one(format, tmp_path / "out")
    assert weights(back)["main", timer.full_name] == 7


def recursion(levels):
    frames = Timer("main"), Timer("f", "f.py", 1)
    tree = CallTree(
        timer=array("q", [0] + [1] * (levels - 1)), parent=array("q", range(-1, levels - 1)),
        calls=array("q", [1] * levels), subroutines=array("q", [1] * (levels - 1) + [0]),
        inclusive={"time": array("q", range(levels, 0, -1))},
        exclusive={"time": array("q", [1] * levels)},
    )  # fmt: skip
    profile = profile_of(host(call("main", 1, 1)))
    profile.timers[:], profile.threads[0].tree = frames, tree
    return profile


@pytest.mark.parametrize("format", [collapsed, speedscope, pprof_proto])
def test_stacks_that_nobody_could_read_are_refused(tmp_path, format):
    with pytest.raises(FormatError, match=r"up to 20000 routines deep.*cut them off with --depth"):
        format.FORMAT.write(recursion(20_000), tmp_path / "out", SILENT)


@pytest.mark.parametrize("format", [speedscope, pprof_proto])
def test_a_recursion_is_written_without_all_its_stacks_in_memory(tmp_path, format):
    profile = recursion(2_000)
    tracemalloc.start()
    format.FORMAT.write(profile, tmp_path / "out", SILENT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_500_000  # of 2 million frames
    back = one(format, tmp_path / "out")
    assert len(back.threads[0].tree) == 2_000


def test_collapsed_is_recognised_by_content(tmp_path):
    assert collapsed.recognises(tmp_path / "x", b"a;b 1\na;c 2\n")
    assert not collapsed.recognises(tmp_path / "x", b"a;b 1\nhello\n")
    assert not collapsed.recognises(tmp_path / "x", b"just one 1\n")
    assert collapsed.recognises(tmp_path / "x.folded", b"just one 1\n")
    assert not collapsed.recognises(tmp_path / "x.folded", b"\0a;b 1\n")


# --- speedscope --------------------------------------------------------------

FRAMES = [{"name": "main"}, {"name": "f", "file": "f.py", "line": 3}, {"name": "g"}]


def scope(folder, *profiles, frames=FRAMES, **more):
    file = folder / "x.speedscope.json"
    document = {"$schema": speedscope.SCHEMA, "profiles": profiles, "shared": {"frames": frames}}
    file.write_text(json.dumps({**document, **more}))
    return file


def sampled(samples, weights, unit="milliseconds", **more):
    return {"type": "sampled", "name": "main thread", "unit": unit, "startValue": 0,
            "endValue": 9, "samples": samples, "weights": weights, **more}  # fmt: skip


def evented(*events, unit="microseconds"):
    keys = ("type", "frame", "at")
    return {"type": "evented", "name": "t", "unit": unit, "startValue": 0, "endValue": 9,
            "events": [dict(zip(keys, event, strict=True)) for event in events]}  # fmt: skip


def test_samples_add_up(tmp_path):
    file = scope(tmp_path, sampled([[0], [0, 1], [0, 1, 2], [0, 1]], [1, 2.5, 4, 0.25]))
    profile = one(speedscope, file)
    f = "f [{f.py}{3}]"
    assert weights(profile) == {
        ("main",): 1_000_000, ("main", f): 2_750_000, ("main", f, "g"): 4_000_000
    }  # fmt: skip
    assert profile.threads[0].thread.name == "main thread"
    assert profile.duration_ns == 7_750_000


def test_events_give_calls_and_times(tmp_path):
    file = scope(
        tmp_path,
        evented(("O", 0, 0), ("O", 1, 1), ("C", 1, 3), ("O", 1, 3), ("O", 2, 4), ("C", 2, 6),
                ("C", 1, 7), ("C", 0, 9)),
    )  # fmt: skip
    profile = one(speedscope, file)
    found = {
        path[-1][0]: (calls, subroutines, *values["time"])
        for path, (calls, subroutines, values) in paths(profile, profile.threads[0]).items()
    }
    assert found == {
        "main": (1, 2, 9_000, 3_000),
        "f [{f.py}{3}]": (2, 1, 6_000, 4_000),
        "g": (1, 0, 2_000, 2_000),
    }
    assert invariants.check(profile) == []


def test_each_profile_is_a_thread_and_keys_may_come_in_any_order(tmp_path):
    file = tmp_path / "x.json"
    profiles = [sampled([[0]], [1]), evented(("O", 1, 5), ("C", 1, 7)), sampled([[2]], [3], "none")]
    odd = [dict(reversed(profile.items())) for profile in profiles]
    file.write_text(json.dumps({"shared": {"frames": FRAMES, "x": [1]}, "y": {}, "profiles": odd}))
    profile = one(speedscope, file)
    assert [m.thread.thread for m in profile.threads] == [0, 1, 2]
    assert [list(m.tree.inclusive) for m in profile.threads] == [["time"], ["time"], ["samples"]]


def test_lines_processes_and_threads_of_py_spy_s_speedscope(tmp_path):
    """`py-spy record -f speedscope -s -t --rate 100`: weights are seconds."""
    frames = [
        {"name": 'process 100:"python a.py"', "file": "", "line": 0},
        {"name": "thread (7): io", "file": "", "line": 0},
        {"name": "run", "file": "a.py", "line": 3},
        {"name": "load", "file": "a.py", "line": 8},
        {"name": "load", "file": "a.py", "line": 9},
        {"name": 'process 101:"python b.py"', "file": "", "line": 0},
    ]
    path = tmp_path / "p.json"
    path.write_text(json.dumps({
        "$schema": speedscope.SCHEMA, "exporter": "py-spy@0.4.0", "shared": {"frames": frames},
        "profiles": [
            {"type": "sampled", "name": 'Process 100 Thread 7 "io"', "unit": "seconds",
             "startValue": 0, "endValue": 0.03,
             "samples": [[0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 2]], "weights": [0.01] * 3},
            {"type": "sampled", "name": "py-spy", "unit": "seconds", "startValue": 0,
             "endValue": 0.01, "samples": [[0, 5, 1, 2]], "weights": [0.01]},
        ],
    }))  # fmt: skip
    profile = one(speedscope, path)
    assert [
        (at.node, at.thread, at.name, at.native_id)
        for at in (measured.thread for measured in profile.threads)
    ] == [(0, 0, "io", 7), (1, 0, "io", 7)]
    assert profile.node_metadata == {
        0: {"PID": "100", "Process Name": "python a.py"},
        1: {"PID": "101", "Process Name": "python b.py"},
    }
    run, load = "run [{a.py}]", "load [{a.py}]"
    assert [weights(profile, "time", measured) for measured in profile.threads] == [
        {(run, load): 20_000_000, (run,): 10_000_000},
        {(run,): 10_000_000},
    ]


def test_frames_that_are_one_routine_are_one_row(tmp_path):
    frames = [{"name": "a"}, {"name": "a"}]
    profile = one(speedscope, scope(tmp_path, sampled([[0], [1]], [1, 2]), frames=frames))
    assert weights(profile) == {("a",): 3_000_000}


@pytest.mark.parametrize(
    ("profiles", "reason"),
    [
        ([], "no profiles"),
        ([sampled([[0]], [1, 2])], "1 samples with 2 weights"),
        ([sampled([[7]], [1])], "frame 7 of 3"),
        ([sampled([[-1]], [1])], "a frame's number"),
        ([sampled([["x"]], [1])], "a frame's number"),
        ([sampled([[0]], ["x"])], "expected a number"),
        ([sampled([[0]], [1], "parsecs")], "the unknown unit 'parsecs'"),
        ([{**sampled([[0]], [1]), "type": "odd"}], "type 'odd'"),
        ([evented(("O", 0, 5), ("C", 0, 3))], "earlier than the preceding one"),
        ([evented(("O", 0, 1), ("C", 1, 3))], "other than the innermost open one"),
        ([evented(("C", 0, 1))], "other than the innermost open one"),
        ([evented(("O", 0, 1))], "1 frame still open"),
        ([evented(("X", 0, 1))], "without type"),
        (["x"], "expected a profile"),
    ],
)
def test_what_is_no_speedscope_profile_is_refused(tmp_path, profiles, reason):
    file = scope(tmp_path, *profiles)
    with pytest.raises(FormatError, match=reason) as refused:
        read(speedscope, file)
    assert str(refused.value).startswith(f"{file}: JSON value ")


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "nonsense", '{"profiles": ' + "[" * 100_000, '{"profiles": 1e9999}',
             '{"profiles": [' + "9" * 10_000 + "]}", b'{"name": "\xed\xa0\x80"}']
)  # fmt: skip
def test_broken_json_is_refused_in_one_line(tmp_path, text):
    file = collapsed_file(tmp_path, text, "x.json")
    with pytest.raises(FormatError) as refused:
        read(speedscope, file)
    assert "\n" not in str(refused.value)


def test_activities_become_a_timeline(tmp_path):
    target = tmp_path / "out"
    speedscope.write(gpu_profile(), target, SILENT)
    document = json.loads(target.read_text())
    (timeline,) = [one for one in document["profiles"] if one["type"] == "evented"]
    names = [frame["name"] for frame in document["shared"]["frames"]]
    first = timeline["events"][:4]
    assert [(e["type"], names[e["frame"]].split("(")[0], e["at"]) for e in first] == [
        ("O", "void gemm<float, 128>", 0), ("C", "void gemm<float, 128>", 500),
        ("O", "relu", 1000), ("C", "relu", 1080),
    ]  # fmt: skip
    assert len(timeline["events"]) == 40
    assert document["activeProfileIndex"] == 0  # kernels alone are no timeline of the program


def test_the_timeline_of_a_host_thread_is_shown_first(tmp_path):
    profile = gpu_profile()
    thread = next(one for one in reversed(profile.threads) if one.thread.context == 0)
    thread.activities.append(Activity(0, "range", 10, 15))
    speedscope.write(profile, tmp_path / "out", SILENT)
    document = json.loads((tmp_path / "out").read_text())
    shown = document["profiles"][document["activeProfileIndex"]]
    assert shown["type"] == "evented"
    assert shown["taupy"]["context"] == 0


def named_threads():
    values = [{"time": 5}, {"time": 6, "n (all)": 7}, {"n (all)": 8}, {"time": 9, "n (all)": 1}]
    names = ("Thread-1 (work)", "(timeline)", "a (b) (time)", "x\n(y")
    threads = [
        host(call(Timer("f", "a.py", 1), 1, own), thread=n, name=name)
        for n, (name, own) in enumerate(zip(names, values, strict=True))
    ]
    profile = profile_of(*threads)
    profile.metrics = [
        Metric("n (all)", "flop") if metric.name != "time" else metric for metric in profile.metrics
    ]
    return profile


def test_threads_and_metrics_of_any_name_come_back(tmp_path):
    profile = named_threads()
    target = tmp_path / "out"
    speedscope.write(profile, target, SILENT)
    back = one(speedscope, target)
    assert set(back.metrics) == set(profile.metrics)
    for metric in ("time", "n (all)"):
        ours = {m.thread: weights(profile, metric, m) for m in profile.threads}
        assert {m.thread: weights(back, metric, m) for m in back.threads} == ours


def test_without_our_key_a_parenthesis_of_a_thread_is_no_metric(tmp_path):
    titles = {"0.0.0 Thread-1 (work)": "nanoseconds", "0.0.1 a": "nanoseconds",
              "0.0.1 a (own)": "nanoseconds", "0.0.2 T (w) (size)": "bytes"}  # fmt: skip
    profiles = [
        sampled([[0]], [n], name=title, unit=unit)
        for n, (title, unit) in enumerate(titles.items(), 1)
    ]
    file = scope(tmp_path, *profiles)
    file.write_text(file.read_text().replace('{"$schema"', '{"exporter": "taupy", "$schema"', 1))
    back = one(speedscope, file)
    found = [(m.thread.name, m.tree.exclusive) for m in back.threads]
    assert [(name, {k: sum(v) for k, v in own.items()}) for name, own in found] == [
        ("Thread-1 (work)", {"time": 1}), ("a", {"time": 2, "own": 3}), ("T (w)", {"size": 4}),
    ]  # fmt: skip
    file = scope(tmp_path, *profiles)  # another tool's: names are names
    assert [m.thread.name for m in one(speedscope, file).threads] == list(titles)


@pytest.mark.parametrize(
    "said", [1, [], {}, {"node": True}, {"node": -1, "context": 0, "thread": 0}]
)
def test_a_key_of_ours_that_says_nothing_sensible_is_passed_over(tmp_path, said):
    file = scope(tmp_path, {**sampled([[0]], [3], name="x"), "taupy": said})
    file.write_text(file.read_text().replace('{"$schema"', '{"exporter": "taupy", "$schema"', 1))
    assert [m.thread.name for m in one(speedscope, file).threads] == ["x"]


def test_speedscope_is_recognised_by_content(tmp_path):
    assert speedscope.recognises(tmp_path, scope(tmp_path, sampled([[0]], [1])).read_bytes())
    assert speedscope.recognises(tmp_path, b'{"profiles": [{"type": "sampled"')
    assert not speedscope.recognises(tmp_path, b'{"traceEvents": []}')
