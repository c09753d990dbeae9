"""nsys SQLite files: totals equal SQL's, kernels hang where they were launched."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from taupy.errors import FormatError
from taupy.formats.nsight import nsys
from taupy.formats.registry import IMPORT_NOTES
from taupy.model import invariants
from taupy.model.progress import SILENT
from tests.unit.formats.nsys_files import EPOCH_NS, SCHEMA, NsysFile, tid, training

SHARED = os.environ.get("TAUPY_SHARED_DATA")


def read(path):
    (profile,) = nsys.read(Path(path), SILENT)
    assert invariants.check(profile) == []
    return profile


def paths(profile, thread):
    """Call path -> (calls, inclusive, exclusive) of one thread, the root left out."""
    (measured,) = [
        one
        for one in profile.threads
        if (one.thread.node, one.thread.context, one.thread.thread) == thread
    ]
    tree, found = measured.tree, {}
    for row in range(1, len(tree)):
        names, at = [], row
        while at > 0:
            names.append(profile.timers[tree.timer[at]].name)
            at = tree.parent[at]
        values = tree.inclusive["time"][row], tree.exclusive["time"][row]
        found[" > ".join(reversed(names))] = (tree.calls[row], *values)
    return found


def totals(profile, group):
    found = {}
    for measured in profile.threads:
        tree = measured.tree
        for row in range(1, len(tree)):
            timer = profile.timers[tree.timer[row]]
            if group in timer.groups and tree.calls[row]:
                calls, time = found.get(timer.name, (0, 0))
                found[timer.name] = (calls + tree.calls[row], time + tree.inclusive["time"][row])
    return found


@pytest.fixture
def small(tmp_path):
    """step [0, 1000] > forward [100, 500] > launch [200, 260] => gemm; sync outside."""
    file = NsysFile(tmp_path / "small.sqlite")
    file.process(7, "/usr/bin/python3")
    file.gpu()
    file.range("step", 0, 1000)
    file.range("forward", 100, 500)
    file.call("cudaLaunchKernel_v7000", 200, 260, 1)
    file.call("cudaMemcpyAsync_v3020", 600, 650, 2)
    file.call("cudaStreamSynchronize_v3020", 1100, 1500, 3)
    file.call("cudaLaunchKernel_v7000", 700, 720, 1, thread=tid(9, 11))  # another process
    file.kernel("void gemm<float, 4>(float *)", 300, 900, 1, grid=(8, 2, 1), block=(128, 1, 1))
    file.kernel("lost(int)", 950, 960, 77)
    file.kernel("void gemm<float, 4>(float *)", 800, 850, 1, process=9)
    file.copy(1, 900, 1000, 2, 4096)
    file.memset(1000, 1001, 2, 64)
    file.wait(1100, 1490, 3)
    return file.done()


def test_a_kernel_hangs_under_its_call_and_that_under_its_range(small):
    profile = read(small)
    host = paths(profile, (0, 0, 0))
    assert host["step"] == (1, 1000, 550)
    assert host["step > forward"] == (1, 400, 340)
    assert host["step > forward > cudaLaunchKernel_v7000"] == (1, 60, 60)
    assert host["cudaStreamSynchronize_v3020"] == (1, 400, 400)
    stream = paths(profile, (0, 1, 0))
    gemm = "void gemm<float, 4>(float *)"
    assert stream[f"step > forward > cudaLaunchKernel_v7000 > {gemm}"] == (1, 600, 600)
    assert stream["(launched from an unknown place) > lost(int)"] == (1, 10, 10)
    assert stream["step > cudaMemcpyAsync_v3020 > Memcpy HtoD"] == (1, 100, 100)
    assert stream["step > cudaMemcpyAsync_v3020 > Memset"] == (1, 1, 1)


def test_equal_correlation_ids_of_two_processes_are_two(small):
    profile = read(small)
    assert paths(profile, (1, 1, 0)) == {
        "cudaLaunchKernel_v7000": (0, 50, 0),
        "cudaLaunchKernel_v7000 > void gemm<float, 4>(float *)": (1, 50, 50),
    }


def test_launches_devices_user_events_and_metadata_come_along(small):
    profile = read(small)
    (stream,) = [
        thread for thread in profile.threads if thread.thread.node == 0 and thread.thread.context
    ]
    launch = next(one for one in stream.launches if one.configuration.grid == (8, 2, 1))
    config = launch.configuration
    assert (config.block, config.registers, config.shared_dynamic_bytes) == ((128, 1, 1), 16, 1024)
    assert config.occupancy == 1.0  # 16 blocks of 4 warps of an H200's 64: nsys gives none
    assert {(e.name, e.count, e.mean) for e in stream.user_events} == {
        ("Bytes copied from Host to Device", 1, 4096.0),
        ("Bytes set", 1, 64.0),
    }
    assert [(d.node, d.name, d.compute_capability) for d in profile.devices] == [
        (0, "NVIDIA H200", "9.0"),
        (1, "NVIDIA H200", "9.0"),
    ]
    assert profile.application == "python3"
    assert profile.started_at == EPOCH_NS / 1e9
    assert profile.metadata["nsys schema"] == "3.11"
    assert profile.node_metadata[0]["PID"] == "7"
    main = profile.threads[0]
    (wait,) = main.user_events
    assert (wait.name, wait.count, wait.mean) == ("Wait: synchronization of type 3", 1, 390)
    waiting = profile.timers[main.tree.timer[wait.row]]
    assert (waiting.name, waiting.groups) == (
        "cudaStreamSynchronize_v3020",
        ("CUDA_API", "GPU_SYNC"),
    )
    moments = sorted(stream.activities, key=lambda activity: activity.start_ns)
    assert (moments[0].start_ns, moments[0].end_ns) == (EPOCH_NS + 300, EPOCH_NS + 900)
    assert "1 record of GPU work without the API call" in profile.metadata[IMPORT_NOTES]


def test_totals_equal_sql_on_the_file(tmp_path):
    path = training(tmp_path / "train.sqlite", kernels=5000)
    profile = read(path)
    db = sqlite3.connect(path)
    for group, table, name in (
        ("GPU_KERNEL", "CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"),
        ("CUDA_API", "CUPTI_ACTIVITY_KIND_RUNTIME", "nameId"),
    ):
        expected = db.execute(
            f'SELECT value, count(*), sum("end" - start) FROM {table}'
            f" JOIN StringIds ON StringIds.id = {name} GROUP BY value"
        )
        assert totals(profile, group) == {text: (calls, time) for text, calls, time in expected}
    by_stream = dict(
        db.execute(
            'SELECT streamId, sum("end" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY streamId'
        )
    )
    assert by_stream == {
        thread.thread.native_id: thread.tree.inclusive["time"][0]
        for thread in profile.threads
        if thread.thread.kind == "stream"
    }


def test_python_frames_stand_between_a_range_and_the_call(tmp_path):
    file = NsysFile(tmp_path / "frames.sqlite")
    file.range("step", 0, 1000)
    frames = [("0x7f00", "libcuda.so", 1), ("forward", "/home/u/net.py", None)]
    frames += [("<module>", "/home/u/train.py", None), ("main", "/usr/bin/python3", None)]
    file.chain(5, frames)
    file.call("cudaLaunchKernel", 10, 30, 1, chain=5)
    file.kernel("k", 40, 50, 1)
    profile = read(file.done())
    assert paths(profile, (0, 0, 0)) == {
        "step": (1, 1000, 980),
        "step > <module>": (0, 20, 0),
        "step > <module> > forward": (0, 20, 0),
        "step > <module> > forward > cudaLaunchKernel": (1, 20, 20),
    }
    frame = next(timer for timer in profile.timers if timer.name == "forward")
    assert (frame.file, frame.groups) == ("/home/u/net.py", ("PYTHON",))
    assert "step > <module> > forward > cudaLaunchKernel > k" in paths(profile, (0, 1, 0))


def test_ranges_of_emit_nvtx_are_operators_and_their_calls_add_up(tmp_path):
    file = NsysFile(tmp_path / "nvtx.sqlite")
    backward = "autograd::engine::evaluate_function: AddmmBackward0"
    for text, begin, end in (
        ("step, op_id = 1", 0, 900),
        ("aten::mm, op_id = 7, seq = 3", 10, 20),
        ("aten::mm, seq = 4, op_id = 8, sizes = [[2, 4], [4, 8]], input_op_ids = [(1,0)]", 30, 50),
        ("aten::empty, op_id = 9", 60, 61),
        ("AddmmBackward0, stashed seq = 4", 75, 79),
        (f"{backward}, op_id = 12", 70, 80),
        ("mine, sizes = many", 90, 99),
    ):
        file.range(text, begin, end)
    for number, begin in enumerate((12, 32), 1):
        file.call("cudaLaunchKernel", begin, begin + 2, number)
        file.kernel("gemm", 1000 * number, 1000 * number + 10 + number, number)
    profile = read(file.done())
    assert {name: row[0] for name, row in paths(profile, (0, 0, 0)).items()} == {
        "step": 1,
        "step > aten::mm": 2,
        "step > aten::mm > cudaLaunchKernel": 2,
        "step > aten::empty": 1,
        f"step > {backward}": 1,
        f"step > {backward} > AddmmBackward0": 1,
        "step > mine, sizes = many": 1,
    }
    (sized,) = profile.threads[0].inputs
    assert sized[1:] == ("[2x4], [4x8]", 1, 20, 1, 12)
    groups = {timer.name: timer.groups for timer in profile.timers[1:] if "GPU" not in str(timer)}
    groups.pop("cudaLaunchKernel")
    of_users = {"step", "mine, sizes = many"}
    assert {name for name, of in groups.items() if of == ("PHASE",)} == of_users
    assert {of for name, of in groups.items() if name not in of_users} == {("OPERATOR",)}


def test_a_range_that_was_open_at_the_end_ends_with_the_recording(tmp_path):
    file = NsysFile(tmp_path / "open.sqlite")
    file.range("epoch", 100, None)
    file.call("cudaFree", 200, 300)
    profile = read(file.done())
    assert paths(profile, (0, 0, 0))["epoch"] == (1, 200, 100)
    assert "1 NVTX range open" in profile.metadata[IMPORT_NOTES]


def test_a_newer_schema_is_read_and_reported(tmp_path):
    file = NsysFile(tmp_path / "newer.sqlite", version="9")
    file.call("cudaFree", 0, 10)
    profile = read(file.done())
    assert "schema version 9.11 is newer" in profile.metadata[IMPORT_NOTES]
    assert paths(profile, (0, 0, 0)) == {"cudaFree": (1, 10, 10)}


def test_columns_that_are_not_there_are_done_without(tmp_path):
    lean = """CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, shortName INT);"""
    file = NsysFile(tmp_path / "lean.sqlite", schema=lean)
    file.db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 25, ?)", (file.string("k"),))
    profile = read(file.done())
    assert paths(profile, (0, 1, 0))["(launched from an unknown place) > k"] == (1, 20, 20)


def test_stamps_that_are_none_are_left_out(tmp_path):
    file = NsysFile(tmp_path / "odd.sqlite")
    for start, end in (("soon", 3), (1 << 62, 1 << 62), (5, 1 << 60), (10, 20), (1.5, 2)):
        file.call("cudaFree", start, end)
    file.kernel("k", "soon", 1 << 62, 1)
    profile = read(file.done())
    assert paths(profile, (0, 0, 0)) == {"cudaFree": (1, 10, 10)}
    assert "left out: 4 slices without usable stamps" in profile.metadata[IMPORT_NOTES]
    assert "left out: 1 record of GPU work without usable" in profile.metadata[IMPORT_NOTES]


def test_what_is_not_an_nsys_file_is_refused_in_one_line(tmp_path, small):
    whole = small.read_bytes()
    cases = {
        "cut.sqlite": (whole[: len(whole) // 2 // 4096 * 4096], "cut short"),
        "odd.sqlite": (whole[:-100], "cut short"),
        "head.sqlite": (whole[:60], "header"),
        "text.sqlite": (b"hello", "not an SQLite file"),
        "torn.sqlite": (whole[:4096] + b"\xff" * 8192 + whole[12288:], "damaged"),
    }
    for name, (content, reason) in cases.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(FormatError) as refused:
            read(path)
        assert reason in str(refused.value) and name in str(refused.value)
        assert "\n" not in str(refused.value)


def test_a_locked_file_and_one_without_anything_are_refused(tmp_path, small):
    other = sqlite3.connect(small, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(FormatError, match="locked"):
        read(small)
    other.close()
    with pytest.raises(FormatError, match="nothing was recorded"):
        read(NsysFile(tmp_path / "empty.sqlite").done())
    with pytest.raises(FormatError, match="nsys export --type sqlite"):
        read(tmp_path / "report.nsys-rep")


def test_a_list_of_tables_that_is_no_text_is_refused(small):
    with sqlite3.connect(small) as changed:
        changed.execute("PRAGMA writable_schema = 1")
        changed.execute("UPDATE sqlite_master SET name = CAST(name AS BLOB) WHERE name LIKE 'T%'")
    changed.close()
    with pytest.raises(FormatError, match=r"the list of tables is damaged|malformed"):
        read(small)


def test_views_and_triggers_of_the_file_are_not_run(tmp_path):
    file = NsysFile(tmp_path / "view.sqlite", schema=SCHEMA.replace("NVTX_EVENTS", "OTHER"))
    file.db.execute(
        "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n (start) AS (SELECT 1 UNION ALL"
        " SELECT start + 1 FROM n) SELECT start, start AS end, 59 AS eventType, 'x' AS text,"
        " 1 AS globalTid FROM n"
    )
    file.call("cudaFree", 0, 10)
    assert paths(read(file.done()), (0, 0, 0)) == {"cudaFree": (1, 10, 10)}


@pytest.mark.skipif(not SHARED, reason="TAUPY_SHARED_DATA names no folder of real files")
def test_a_real_file_with_resolved_call_paths():
    path = Path(SHARED, "gpu/a100_exgpu/ex-gpu.s1000.sqlite")
    profile = read(path)
    expected = sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True).execute(
        'SELECT value, count(*), sum("end" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL'
        " JOIN StringIds ON StringIds.id = demangledName GROUP BY value"
    )
    assert totals(profile, "GPU_KERNEL") == {name: (calls, time) for name, calls, time in expected}
    stream = paths(profile, (0, 1, 0))
    assert any(
        path.startswith("_start > __libc_start_main > main > vector_add(")
        and path.endswith("cudaLaunchKernel_v7000 > vector_add(double const*, double const*,"
                          " unsigned long, double*)")
        for path in stream
    )  # fmt: skip
    assert profile.devices[0].name == "A100-PCIE-40GB"
