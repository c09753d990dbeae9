"""Perfetto traces: one track a stream, no overlaps, every slice with its time."""

from __future__ import annotations

import random
import struct
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.errors import FormatError
from taupy.formats import perfetto, registry
from taupy.formats import protowire as wire
from taupy.formats.registry import exported
from taupy.model import invariants
from taupy.model.gpu import Activity
from taupy.model.profile import ROOT_TIMER
from taupy.model.progress import SILENT
from tests import builders
from tests.unit.formats.comparing import one, paths, short_paths


def parsed(path):
    """Tracks by uuid with their names, and per track the slices (name, start, end, depth)."""
    names, tracks, slices, open_ones, stamps = {}, {}, {}, {}, {}
    for number, _, packet in wire.fields(path.read_bytes()):
        assert number == 1
        parts = {which: value for which, _, value in wire.fields(packet)}
        for which, _, entry in wire.fields(parts.get(12, b"")):
            if which == 2:
                entry = dict(field[::2] for field in wire.fields(entry))
                names[entry[1]] = entry[2].decode()
        if 60 in parts:
            described = dict(field[::2] for field in wire.fields(parts[60]))
            tracks[described[1]] = described.get(2, b"").decode()
        if 11 in parts:
            event = dict(field[::2] for field in wire.fields(parts[11]))
            track, moment = event[11], parts[8]
            assert track in tracks and moment >= stamps.get(track, 0)
            stamps[track] = moment
            stack = open_ones.setdefault(track, [])
            if event[9] == 1:
                stack.append((names[event[10]], moment))
            else:
                name, start = stack.pop()
                slices.setdefault(track, []).append((name, start, moment, len(stack)))
    assert not any(open_ones.values())
    return tracks, slices


def test_streams_have_a_track_each(tmp_path):
    path = tmp_path / "t.pftrace"
    lost = exported(builders.gpu_profile(), perfetto.FORMAT, path, SILENT)
    tracks, slices = parsed(path)
    assert sorted(filter(None, tracks.values())) == ["stream 7"]
    (found,) = slices.values()
    assert sum(end - start for name, start, end, _ in found if name.startswith("void gemm")) == 5000
    assert sum(name == "relu(float*)" for name, *_ in found) == 10
    assert any(line.startswith("not written: metrics other than time: flop_fp32") for line in lost)


intervals = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=20)


@given(intervals)
def test_what_overlaps_on_a_stream_gets_a_further_track(tmp_path_factory, found):
    profile = builders.gpu_profile()
    activities = [Activity(4, "kernel", 10**9 + at, 10**9 + at + n) for at, n in found]
    profile.threads[1].activities = activities
    path = tmp_path_factory.mktemp("lanes") / "t.pftrace"
    perfetto.write(profile, path, SILENT)
    tracks, slices = parsed(path)
    assert all(depth == 0 for one in slices.values() for *_, depth in one)
    written = sorted((start, end) for one in slices.values() for _, start, end, _ in one)
    assert written == sorted((activity.start_ns, activity.end_ns) for activity in activities)
    assert all(tracks[track].startswith("stream 7") for track in slices)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_a_trial_without_activities_is_laid_out(tmp_path_factory, seed):
    profile = builders.random_profile(random.Random(seed))
    path = tmp_path_factory.mktemp("laid") / "t.pftrace"
    lost = exported(profile, perfetto.FORMAT, path, SILENT)
    _, slices = parsed(path)
    total = sum(end - start for one in slices.values() for _, start, end, _ in one)
    rows = [
        thread.tree.inclusive["time"][row]
        for thread in profile.threads
        for row in range(len(thread.tree))
    ]
    assert (total, sum(map(len, slices.values()))) == (sum(rows), len(rows))
    assert any("laid out" in line for line in lost)


def counters(path):
    """Counters by (process, name, unit): moments and values."""
    tracks, processes, values = {}, {}, {}
    for _, _, packet in wire.fields(path.read_bytes()):
        parts = {which: value for which, _, value in wire.fields(packet)}
        if 60 in parts:
            described = dict(field[::2] for field in wire.fields(parts[60]))
            if 3 in described:
                process = dict(field[::2] for field in wire.fields(described[3]))
                processes[described[1]] = process[6].decode()
            if 8 in described:
                unit = dict(field[::2] for field in wire.fields(described[8]))[6].decode()
                name = described[2].decode()
                tracks[described[1]] = (processes[described[5]], name, unit)
        if 11 in parts:
            event = dict(field[::2] for field in wire.fields(parts[11]))
            if event[9] == 4:
                (value,) = struct.unpack("<d", event[44])
                values.setdefault(tracks[event[11]], []).append((parts[8], value))
    return values


def test_values_over_time_are_counters_of_their_gpu(tmp_path):
    profile = builders.gpu_profile()
    profile.threads[0].samples = [builders.samples("GPU[0] sm_active", "%", [4.0, 6.0])]
    path = tmp_path / "t.pftrace"
    perfetto.write(profile, path, SILENT)
    (device,) = profile.devices
    start = builders.SAMPLED_FROM_NS
    assert counters(path) == {
        (f"GPU 0: {device.name}", "sm_active", "%"): [
            (start, 4.0),
            (start + 1000, 6.0),
            (start + 2000, 6.0),
        ]
    }


def test_counters_stand_at_their_moments_also_where_call_paths_are_laid_out(tmp_path):
    profile = builders.small_profile()
    profile.threads[0].samples = [builders.samples("GPU[1] Power", "W", [100.0])]
    path = tmp_path / "t.pftrace"
    lost = exported(profile, perfetto.FORMAT, path, SILENT)
    assert list(counters(path)) == [("GPU 1", "Power", "W")]
    assert counters(path)["GPU 1", "Power", "W"][0][0] == builders.SAMPLED_FROM_NS
    assert any("the work at each sample of a counter" in line for line in lost)


# --- read again --------------------------------------------------------------


def below_the_root(profile):
    """Call paths of each thread without a root of ours: calls, inclusive, exclusive of time."""
    found = {}
    for measured in profile.threads:
        at = measured.thread
        for path, (calls, _, values) in paths(profile, measured).items():
            names = tuple(routine for routine in path if routine[0] != ROOT_TIMER)
            if names and "time" in values:
                found[(at.node, at.context, at.name, names)] = (calls, *values["time"])
    return found


def test_what_was_laid_out_comes_back_with_calls_times_groups_and_places(tmp_path):
    profile = builders.small_profile()
    path = tmp_path / "t.pftrace"
    perfetto.write(profile, path, SILENT)
    assert registry.recognised(path).name == "perfetto"
    again = one(perfetto, path)
    assert below_the_root(again) == below_the_root(profile)
    assert again.application == profile.application
    assert invariants.check(again) == []


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_any_lawful_profile_comes_back(tmp_path_factory, seed):
    """But for the callers of what took no time, which no timeline shows."""
    profile = builders.random_profile(random.Random(seed), nodes=1)
    path = tmp_path_factory.mktemp("t") / "t.pftrace"
    perfetto.write(profile, path, SILENT)
    again = one(perfetto, path)
    assert invariants.check(again) == []

    def sums(profile):
        """Calls and exclusive time of each routine below the roots, over all threads."""
        found = Counter()
        for (*_, names), (calls, _, exclusive) in below_the_root(profile).items():
            found[names[-1][0], "calls"] += calls
            found[names[-1][0], "time"] += exclusive
        return {name: value for name, value in found.items() if value}

    assert sums(again) == sums(profile)


def test_kernels_of_a_timeline_come_back_on_their_streams(tmp_path):
    profile = builders.gpu_profile()
    path = tmp_path / "t.pftrace"
    perfetto.write(profile, path, SILENT)
    again = one(perfetto, path)

    def streams(profile):
        return {
            (measured.thread.context, measured.thread.thread): measured
            for measured in profile.threads
            if measured.thread.kind == "stream"
        }

    before = {
        place: list(measured.activities)
        for place, measured in streams(builders.gpu_profile()).items()
    }
    found = streams(again)
    assert found.keys() == {place for place, activities in before.items() if activities}
    for place, measured in found.items():
        assert sum(measured.tree.calls) == len(before[place])
        took = sum(activity.end_ns - activity.start_ns for activity in before[place])
        assert measured.tree.inclusive["time"][0] == took


def packet(content):
    return wire.put_bytes(1, content + wire.put_number(10, 7))


def event(kind, moment, name="", track=5):
    content = wire.put_number(9, kind) + wire.put_number(11, track)
    content += wire.put_text(23, name) if name else b""
    return packet(wire.put_number(8, moment) + wire.put_bytes(11, content))


def test_slices_of_another_writer_are_calls_and_what_is_cut_off_is_reported(tmp_path):
    thread = wire.put_number(1, 40) + wire.put_number(2, 41) + wire.put_text(5, "worker")
    track = packet(wire.put_bytes(60, wire.put_number(1, 5) + wire.put_bytes(4, thread)))
    slices = [
        *(event(1, 100, "f"), event(1, 110, "g"), event(2, 130), event(1, 140, "g")),
        *(event(2, 150), event(2, 200), event(2, 210), event(1, 220, "f")),
    ]
    path = tmp_path / "other"
    path.write_bytes(track + b"".join(slices))
    assert registry.recognised(path).name == "perfetto"
    profile = one(perfetto, path)
    (measured,) = profile.threads
    assert measured.thread.name == "worker"
    assert short_paths(profile, measured) == {"f": (2, 2, 100, 70), "f > g": (2, 0, 30, 30)}
    assert "1 slice without an end" in profile.metadata[registry.IMPORT_NOTES]
    assert "omitted: 1 end of slices without a beginning" in profile.metadata[registry.IMPORT_NOTES]


@pytest.mark.parametrize("at", [1, 2, 3, 4])
@pytest.mark.parametrize("zeros", [1, 16])
def test_stray_zero_bytes_between_packets_are_skipped_and_noted(tmp_path, at, zeros):
    track = packet(wire.put_bytes(60, wire.put_number(1, 5) + wire.put_text(2, "main")))
    packets = [track, event(1, 100, "f"), event(2, 130), packet(b"")]
    packets.insert(at, b"\0" * zeros)
    path = tmp_path / "zeros"
    path.write_bytes(b"".join(packets))
    assert registry.recognised(path).name == "perfetto"
    profile = one(perfetto, path)
    assert short_paths(profile, profile.threads[0]) == {"f": (1, 0, 30, 30)}
    said = {1: "1 stray zero byte between", 16: "16 stray zero bytes between"}
    assert said[zeros] in profile.metadata[registry.IMPORT_NOTES]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "contains no slices on a track"),
        (event(1, 5, "f")[:-3], "cut off"),
        (b"\x12\x01a", "byte 0: not a packet"),
        (packet(wire.put_bytes(50, b"x")), "compressed packets"),
        (event(1, 1 << 63, "f"), "a time stamp of"),
        (wire.put_varint(1 << 3 | 2) + wire.put_varint(1 << 40), "a packet of"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path, content, said):
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=said):
        one(perfetto, path)
