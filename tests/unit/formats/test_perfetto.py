"""Perfetto traces: one track a stream, no overlaps, every slice with its time."""

from __future__ import annotations

import random
import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.formats import perfetto
from taupy.formats import protowire as wire
from taupy.formats.progress import SILENT
from taupy.model.gpu import Activity
from tests import builders


def parsed(path):
    """Tracks by uuid with their names, and per track the slices (name, start, end, depth)."""
    names, tracks, slices, open_ones, stamps = {}, {}, {}, {}, {}
    for number, _, packet in wire.fields(path.read_bytes()):
        assert number == 1
        parts = {which: value for which, _, value in wire.fields(packet)}
        for which, _, entry in wire.fields(parts.get(12, b"")):
            if which == 2:
                entry = dict(one[::2] for one in wire.fields(entry))
                names[entry[1]] = entry[2].decode()
        if 60 in parts:
            described = dict(one[::2] for one in wire.fields(parts[60]))
            tracks[described[1]] = described.get(2, b"").decode()
        if 11 in parts:
            event = dict(one[::2] for one in wire.fields(parts[11]))
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
    lost = perfetto.write(builders.gpu_profile(), path, SILENT)
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
    assert written == sorted((one.start_ns, one.end_ns) for one in activities)
    assert all(tracks[track].startswith("stream 7") for track in slices)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_a_trial_without_activities_is_laid_out(tmp_path_factory, seed):
    profile = builders.random_profile(random.Random(seed))
    path = tmp_path_factory.mktemp("laid") / "t.pftrace"
    lost = perfetto.write(profile, path, SILENT)
    _, slices = parsed(path)
    total = sum(end - start for one in slices.values() for _, start, end, _ in one)
    rows = [
        one.tree.inclusive["time"][row] for one in profile.threads for row in range(len(one.tree))
    ]
    assert (total, sum(map(len, slices.values()))) == (sum(rows), len(rows))
    assert any("laid out" in line for line in lost)


def counters(path):
    """Counters by (process, name, unit): moments and values."""
    tracks, processes, values = {}, {}, {}
    for _, _, packet in wire.fields(path.read_bytes()):
        parts = {which: value for which, _, value in wire.fields(packet)}
        if 60 in parts:
            described = dict(one[::2] for one in wire.fields(parts[60]))
            if 3 in described:
                process = dict(one[::2] for one in wire.fields(described[3]))
                processes[described[1]] = process[6].decode()
            if 8 in described:
                unit = dict(one[::2] for one in wire.fields(described[8]))[6].decode()
                name = described[2].decode()
                tracks[described[1]] = (processes[described[5]], name, unit)
        if 11 in parts:
            event = dict(one[::2] for one in wire.fields(parts[11]))
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
    lost = perfetto.write(profile, path, SILENT)
    assert list(counters(path)) == [("GPU 1", "Power", "W")]
    assert counters(path)["GPU 1", "Power", "W"][0][0] == builders.SAMPLED_FROM_NS
    assert any("at which moment of the counters" in line for line in lost)
