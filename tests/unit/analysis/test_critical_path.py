"""Critical paths: without an operator, no program gains more than its bound; public traces."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from taupy.analysis.critical_path import Call, Pieces, Program, Work, critical_path
from taupy.commands import main
from taupy.formats.chrome import trace as chrome
from taupy.model.gpu_path import KINDS, PARTS, Part, read, written
from taupy.model.gpu_time import GpuTime, parsed, stored
from taupy.model.progress import SILENT
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import gpu_profile
from tests.growth import is_faster
from tests.unit.analysis.test_gpu_idle import US, gpu_times
from tests.unit.formats import chrome_files as made

SHARED = Path(os.environ.get("TAUPY_SHARED_DATA") or "/nonexistent") / "traces"
LATENCY, GAP, CALL, RETURN = 3000, 1000, 2000, 1500


@dataclass
class Machine:
    """A host thread and a GPU with streams, which run a program: what they do, and when."""

    now: int = 1_000_000
    ends: dict[int, int] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    pieces: list[tuple[int, int, str]] = field(default_factory=list)
    joined: dict[int, int] = field(default_factory=dict)

    def spend(self, place, ns):
        if ns:
            self.pieces.append((self.now, self.now + ns, place))
            self.now += ns

    def launch(self, place, stream, ns, kind="kernel"):
        began = self.now
        start = began + LATENCY
        if stream in self.ends:
            start = max(start, self.ends[stream] + GAP)
        start = max(start, self.joined.pop(stream, 0) + GAP)
        self.spend(place, CALL)
        self.works.append(Work(start, start + ns, stream, kind, place))
        self.ends[stream] = start + ns
        self.calls.append(Call(began, self.now, 0, place, (len(self.works) - 1,)))

    def join(self, place, stream):
        began = self.now
        others = [end for other, end in self.ends.items() if other != stream]
        self.joined[stream] = max([0, self.joined.get(stream, 0), *others])
        self.spend(place, CALL)
        self.calls.append(Call(began, self.now, 0, place, joins=True))

    def wait(self, place):
        began = self.now
        ready = max(self.ends.values(), default=0) + RETURN
        self.spend(place, max(CALL, ready - began))
        self.calls.append(Call(began, self.now, 0, place, waits=True))

    def run(self, steps, without=None) -> Program:
        begin = self.now
        for place, action, *how in steps:
            if place != without:
                getattr(self, action)(place, *how)
        order = sorted(range(len(self.works)), key=lambda at: self.works[at].begin)
        again = {at: place for place, at in enumerate(order)}
        calls = [call._replace(works=tuple(again[at] for at in call.works)) for call in self.calls]
        works = [self.works[at] for at in order]
        return Program(begin, self.now, calls, works, [Pieces.of(self.pieces)])


def length(program):
    return max([program.end, *(work.end for work in program.works)]) - program.begin


def random_steps(seed):
    draw = random.Random(seed)
    places = [f"op{number}" for number in range(draw.randint(2, 6))]
    waits = draw.choice([0, 0, 1, 2])
    steps = []
    for _ in range(draw.randint(5, 60)):
        place = draw.choice(places)
        steps.append((place, "spend", draw.choice([0, 500, 20_000, 200_000])))
        what = draw.random()
        if what < 0.6:
            kind = draw.choice(["kernel", "kernel", "copy", "communication"])
            took = draw.choice([700, 9_000, 80_000, 600_000])
            steps.append((place, "launch", draw.choice([7, 7, 13]), took, kind))
        elif what < 0.7 and waits:
            steps.append((draw.choice(places[:waits]), "wait"))
        elif what < 0.8:
            steps.append((place, "join", draw.choice([7, 13])))
    return places, steps


@pytest.mark.parametrize("part", range(10))
def test_no_program_gains_more_without_an_operator_than_its_bound(part):
    reached = 0
    for seed in range(100 * part, 100 * part + 100):
        places, steps = random_steps(seed)
        program = Machine().run(steps)
        path = critical_path(program)
        assert path.measured_ns == path.replayed_ns == length(program)
        assert sum(found.ns for found in path.parts) == path.replayed_ns
        bounds = {found.place: found.bound_ns for found in path.parts}
        for place in places:
            gain = length(program) - length(Machine().run(steps, without=place))
            assert gain <= bounds.get(place, path.unexplained_ns), (seed, place)
            reached += place in bounds and 0 < 0.9 * bounds[place] <= gain
    assert reached > 20, "the bounds are near what is gained"


def test_a_path_leads_from_work_to_what_it_waited_for():
    program = Machine().run(
        [
            ("read", "spend", 50_000),
            ("mm", "launch", 7, 400_000),
            ("log", "spend", 10_000),  # beside the kernel
            ("add", "launch", 7, 30_000),
            ("item", "wait"),
            ("sgd", "spend", 20_000),
        ]
    )
    path = critical_path(program, "step 3")
    parts = {(part.kind, part.place): part.ns for part in path.parts}
    assert parts == {
        ("host", "read"): 50_000,
        ("launch", "mm"): LATENCY,
        ("kernel", "mm"): 400_000,
        ("gap", "add"): GAP,
        ("kernel", "add"): 30_000,
        ("wait", "item"): RETURN,
        ("host", "sgd"): 20_000,
    }
    assert sum(parts.values()) == path.measured_ns == path.replayed_ns
    bounds = {part.place: part.bound_ns for part in path.parts}
    assert bounds["mm"] == 400_000 + LATENCY + GAP + RETURN, "what nothing explains may go, too"
    # Without the wait, `sgd` runs beside the kernels, which take 430 us.
    assert bounds["item"] == path.measured_ns - 430_000
    assert path.of("kernel") == 430_000


def test_earlier_work_and_work_of_unknown_launches_is_fixed_in_time():
    works = [
        Work(0, 900, 7, "kernel", "before", is_earlier=True),
        Work(515, 520, 13, "kernel", "add"),
        Work(950, 1000, 7, "kernel", "mm"),
    ]
    calls = [Call(510, 512, 0, "add", (1,)), Call(600, 610, 0, "mm", (2,))]
    program = Program(500, 700, calls, works, [Pieces.of([(500, 700, "main")])])
    path = critical_path(program)
    assert path.replayed_ns == path.measured_ns == 500
    assert [(part.kind, part.ns) for part in path.parts] == [
        ("earlier work", 400), ("gap", 50), ("kernel", 50)
    ]  # fmt: skip


def test_what_was_queued_before_the_step_may_begin_after_its_end(tmp_path):
    """Seen in a trace of three steps: the collective of the one before ran until 20 ms after the
    end of the last step's calls, and 28 ms of its path were a gap that nothing explained."""

    def call(name, number, begin):
        return made.slice_("cuda_runtime", name, begin, begin + 5 * US, correlation=number)

    events = [
        made.slice_("user_annotation", "ProfilerStep#0", 0, 99 * US),
        made.slice_("user_annotation", "ProfilerStep#1", 100 * US, 200 * US),
        call("cudaLaunchKernel", 1, 10 * US), made.kernel("a", 20 * US, 90 * US, 1),
        call("cudaLaunchKernel", 2, 30 * US),
        made.kernel("ncclDevKernel", 95 * US, 800 * US, 2, stream=20),
        call("cudaStreamWaitEvent", 0, 40 * US),
        call("cudaLaunchKernel", 3, 50 * US), made.kernel("b", 805 * US, 900 * US, 3),
        call("cudaLaunchKernel", 4, 150 * US), made.kernel("c", 901 * US, 1000 * US, 4),
    ]  # fmt: skip
    (time,) = gpu_times(made.written(tmp_path / "t.json", events)).values()
    path = time.paths[0]
    assert path.measured_ns == path.replayed_ns == 900 * US
    assert {part.kind: part.ns for part in path.parts} == {
        "earlier work": 800 * US, "gap": US, "kernel": 99 * US,
    }  # fmt: skip


def test_work_that_waits_for_an_earlier_step_on_another_stream_follows_it():
    works = [
        Work(0, 20_900, 20, "communication", "before", is_earlier=True),
        Work(20_905, 21_000, 7, "kernel", "mm"),
    ]
    calls = [Call(510, 512, 0, "wait", (), joins=True), Call(600, 610, 0, "mm", (1,))]
    path = critical_path(Program(500, 700, calls, works, [Pieces.of([(500, 700, "main")])]))
    assert [(part.kind, part.ns) for part in path.parts if part.ns] == [
        ("earlier work", 20_400), ("kernel", 95), ("gap", 5)
    ]  # fmt: skip


def test_what_other_threads_do_while_the_path_is_on_the_host_counts_too():
    """The main thread waits for one that makes a batch: no bound may forget that one."""
    main = [(0, 90, "get"), (90, 100, "mm")]
    other = [(0, 80, "decode"), (80, 100, "get")]
    program = Program(0, 100, [Call(92, 95, 0, "mm")], [], [Pieces.of(main), Pieces.of(other)])
    bounds = {part.place: part.bound_ns for part in critical_path(program).parts}
    assert bounds["get"] == 100 and bounds["mm"] == 10


def test_a_path_is_stored_as_it_is_and_its_short_parts_by_kind():
    parts = tuple(Part("host", f"f{at}", 100 - at, 100) for at in range(PARTS + 3))
    path = critical_path(Machine().run([("a", "spend", 10)]))._replace(parts=parts)
    again = read(written(path))
    assert again is not None and again.parts[:PARTS] == parts[:PARTS]
    assert again.of("host") == path.of("host")
    time = GpuTime(1, 0, 0, paths=(again,))
    assert parsed(time.text()) == time
    assert parsed(GpuTime(1, 0, 0).text()) == GpuTime(1, 0, 0)
    for damaged in ([], "x", ["", 1, 1, [["none", "x", 1, 1]]], ["", -1, 1, []]):
        with pytest.raises((TypeError, ValueError)):
            read(damaged)


@pytest.mark.slow
def test_twice_as_many_places_take_twice_as_long():
    """Each place makes the host wait, so that each has a bound of its own."""
    programs = {}
    for count in (1_000, 8_000):
        steps = [(f"op{number // 2}", *how) for number, how in
                 enumerate([("launch", 7, 5_000, "kernel"), ("wait",)] * count)]  # fmt: skip
        programs[count] = Machine().run(steps)
    small, large = (partial(critical_path, program) for program in programs.values())
    assert is_faster(large, small, 20)


def trained(tmp_path, capsys, count=10):
    """A database with a trace of steps of one operator each, which waits for its kernel."""
    events = []
    for step in range(count):
        at = step * 100 * US
        number = 2 * step + 1
        events += [
            made.slice_("user_annotation", f"ProfilerStep#{step}", at, at + 90 * US),
            made.slice_("cpu_op", "aten::mm", at + 5 * US, at + 20 * US),
            made.slice_("cuda_runtime", "cudaLaunchKernel", at + 10 * US, at + 15 * US,
                        correlation=number),
            made.kernel("gemm", at + 20 * US, at + (30 + step) * US, number),
            made.slice_("cuda_runtime", "cudaStreamSynchronize", at + 25 * US, at + 60 * US,
                        correlation=number + 1),
        ]  # fmt: skip
    db = ["--db", str(tmp_path / "taupy.db")]
    assert main(["import", str(made.written(tmp_path / "t.json", events)), *db]) == 0
    capsys.readouterr()
    return db


def test_a_path_is_of_the_last_step_or_of_the_given_one(tmp_path, capsys):
    db = trained(tmp_path, capsys)
    for option, step in (([], 10), (["--step", "7"], 7)):
        assert main(["kernels", "--critical-path", *option, *db]) == 0
        assert f"CRITICAL PATH OF STEP {step}, NODE 0" in capsys.readouterr().out
        assert main(["kernels", "--critical-path", "--csv", *option, *db]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        kernel = next(row for row in rows if row["kind"] == "kernel")
        assert (kernel["step"], int(kernel["path_ns"])) == (f"step {step}", (9 + step) * US)


def test_a_step_without_a_path_is_refused_with_those_that_have_one(tmp_path, capsys):
    db = trained(tmp_path, capsys)
    assert main(["kernels", "--critical-path", "--step", "1", *db]) != 0
    assert "it has that of step 3, step 4, step 5," in capsys.readouterr().err
    assert main(["kernels", "--step", "3", *db]) != 0
    assert "--step needs --critical-path" in capsys.readouterr().err


def test_work_without_calls_has_no_path_and_the_reason_is_said(tmp_path, capsys):
    events = [made.kernel("gemm", 30 * US, 90 * US, 1), made.kernel("gemm", 95 * US, 99 * US, 2)]
    db = ["--db", str(tmp_path / "taupy.db")]
    assert main(["import", str(made.written(tmp_path / "t.json", events)), *db]) == 0
    capsys.readouterr()
    assert main(["kernels", "--critical-path", *db]) != 0
    said = capsys.readouterr().err
    assert "the calls that launched its GPU work are not in the trace" in said


def test_work_that_names_its_operator_alone_has_a_path(tmp_path):
    """As the same trace with calls has, to the moment of the launch, which nobody knows."""
    events = [
        made.slice_("user_annotation", "ProfilerStep#3", 0, 200 * US),
        made.slice_("cpu_op", "aten::mm", 10 * US, 40 * US, **{"External id": 1}),
        made.kernel("gemm", 30 * US, 90 * US, operator=1),
        made.kernel("gemm", 92 * US, 95 * US, operator=1),  # of the same operator: queued
        made.slice_("cpu_op", "aten::add", 100 * US, 160 * US, **{"External id": 2}),
        made.kernel("add", 150 * US, 170 * US, operator=2),
    ]
    (time,) = gpu_times(made.written(tmp_path / "t.json", events)).values()
    assert {part.cause: (part.ns // US, part.places[0][0]) for part in time.idle} == {
        "host": (50, "aten::add"), "launch latency": (5, "aten::add"),
        "between kernels": (2, "aten::mm"),
    }  # fmt: skip
    (path,) = time.paths
    assert (path.step, path.measured_ns) == ("step 4", path.replayed_ns)
    of_host = {part.place: part.ns for part in path.parts if part.kind == "host"}
    assert of_host["aten::add"] == 60 * US  # no call of the API says more


def test_an_external_id_that_repeats_the_correlation_is_no_operator(tmp_path):
    """As in traces of 2023, where a work whose call is missing would get any operator."""
    events = [
        made.slice_("cpu_op", "aten::mm", 10 * US, 40 * US, **{"External id": 5}),
        made.kernel("gemm", 30 * US, 90 * US, 5, operator=5),
        made.kernel("gemm", 95 * US, 99 * US, 6, operator=6),
    ]
    (time,) = gpu_times(made.written(tmp_path / "t.json", events)).values()
    assert [part.cause for part in time.idle] == ["launch not seen"] and not time.paths


IDS = ("correlation", "External id")


def without_ids(event: dict) -> dict:
    """What an event would be if arrows alone joined calls and works."""
    args = {name: of for name, of in event.get("args", {}).items() if name not in IDS}
    return {**event, **({"args": args} if "args" in event else {})}


def test_arrows_alone_tell_the_causes_the_path_and_the_sizes_of_inputs(tmp_path):
    events = list(made.steps(4))
    for n in range(4):  # the copies have no arrows
        events.append(made.arrow("s", 9 * n + 8, n * 15_000 + 12_500, made.PID, made.PID))
        events.append(made.arrow("f", 9 * n + 8, n * 15_000 + 13_000, 7, 0))
    profiles = []
    for name, of_file in ("ids.json", events), ("arrows.json", map(without_ids, events)):
        profiles += chrome.read(made.written(tmp_path / name, of_file), SILENT)
    by_id, by_arrow = (stored(profile.node_metadata)[0, 1] for profile in profiles)
    assert by_id.paths and by_arrow == by_id
    by_id, by_arrow = ([of.inputs for of in profile.threads] for profile in profiles)
    assert any(by_id) and by_arrow == by_id


def test_an_arrow_that_leaves_an_operator_stands_for_its_end(tmp_path):
    """The trace has no calls of the API: the launch was at the latest 5 us before the work."""
    events = [
        made.slice_("cpu_op", "aten::mm", 10 * US, 40 * US),
        made.arrow("s", 1, 12 * US, made.PID, made.PID),
        made.kernel("gemm", 30 * US, 90 * US),
        made.arrow("f", 1, 30 * US, 7, 0),
        made.slice_("cpu_op", "aten::add", 95 * US, 99 * US),
        made.arrow("s", 2, 95 * US, made.PID, made.PID),
        made.kernel("add", 110 * US, 120 * US),
        made.arrow("f", 2, 110 * US, 7, 0),
    ]
    (time,) = gpu_times(made.written(tmp_path / "t.json", events)).values()
    assert {part.cause: part.ns for part in time.idle} == {
        "nothing recorded on the host": 5 * US, "host": 4 * US, "launch latency": 11 * US
    }  # fmt: skip
    (path,) = time.paths
    assert path.measured_ns == path.replayed_ns


@pytest.mark.skipif(not SHARED.exists(), reason="TAUPY_SHARED_DATA has no traces")
@pytest.mark.parametrize("file", ["qwen_h100", "qwen_mi300", "bert_h100"])
def test_arrows_alone_tell_as_much_of_public_traces(tmp_path, file):
    path = SHARED / f"{file}.json.gz"
    trace = json.loads(gzip.decompress(path.read_bytes()))
    trace["traceEvents"] = list(map(without_ids, trace["traceEvents"]))
    (tmp_path / "arrows.json").write_text(json.dumps(trace))
    assert gpu_times(tmp_path / "arrows.json") == gpu_times(path)


@pytest.mark.skipif(not SHARED.exists(), reason="TAUPY_SHARED_DATA has no traces")
@pytest.mark.parametrize(
    ("file", "shares"),
    [
        ("qwen_h100", {"earlier work": 28.7, "gpu": 61.2, "host": 6.6}),
        ("qwen_mi300", {"earlier work": 28.0, "gpu": 59.7, "host": 12.1}),
        ("bert_h100", {"host": 99.6}),
        ("hta_alexnet", {"host": 99.5}),
    ],
)
def test_paths_of_public_traces(file, shares):
    (time,) = gpu_times(SHARED / f"{file}.json.gz").values()
    (path,) = time.paths
    assert path.measured_ns == path.replayed_ns
    assert (path.step == "") == (file == "hta_alexnet")
    found = {kind: 100 * path.of(kind) / path.measured_ns for kind in KINDS}
    assert sum(found.values()) == pytest.approx(100)
    found["gpu"] = found["kernel"] + found["copy"]
    assert {kind: round(found[kind], 1) for kind in shares} == shares


def test_the_command_says_what_the_path_is_and_how_to_get_one(tmp_path, capsys):
    events = [
        made.slice_("cpu_op", "aten::mm", 10 * US, 40 * US),
        made.slice_("cuda_runtime", "cudaLaunchKernel", 20 * US, 25 * US, correlation=1),
        made.kernel("sm90_gemm", 30 * US, 90 * US, 1),
        made.slice_("cpu_op", "aten::item", 42 * US, 99 * US),
        made.slice_("cuda_runtime", "cudaStreamSynchronize", 45 * US, 95 * US, correlation=2),
        made.slice_("cuda_runtime", "cudaLaunchKernel", 97 * US, 98 * US, correlation=3),
        made.kernel("tail", 103 * US, 104 * US, 3),
    ]
    db = ["--db", str(tmp_path / "taupy.db")]
    assert main(["import", str(made.written(tmp_path / "t.json", events)), *db]) == 0
    capsys.readouterr()
    assert main(["kernels", "--critical-path", "--csv", *db]) == 0
    out = capsys.readouterr().out
    rows = {
        (row["kind"], row["place"]): int(row["path_ns"]) for row in csv.DictReader(io.StringIO(out))
    }
    assert rows == {
        ("launch", "aten::mm"): 10 * US,
        ("kernel", "aten::mm"): 60 * US,
        ("wait", "aten::item"): 5 * US,
        ("host", "aten::item"): 2 * US,
        ("launch", "aten::item"): 6 * US,
        ("kernel", "aten::item"): 1 * US,
    }
    assert main(["kernels", "--critical-path", *db]) == 0
    assert "as measured: exactly" in capsys.readouterr().out
    with ProfileDB.open(str(tmp_path / "taupy.db"), create=True, readonly=False) as database:
        add_profile(database, gpu_profile())
    assert main(["kernels", "2", "--critical-path", *db]) != 0
    assert "record them with `taupy run --trace`" in capsys.readouterr().err
