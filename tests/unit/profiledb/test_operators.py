"""Operators as dimensions of GPU work: the nearest and the outermost timer of their group."""

from __future__ import annotations

import json

import pytest

from taupy.commands import main
from taupy.formats.chrome.trace import read
from taupy.model.gpu import NO_OWNER
from taupy.model.progress import SILENT
from taupy.model.question import Question
from taupy.network.operators import GRAPH, NONE
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from tests.builders import gpu_profile
from tests.unit.formats.chrome_files import HEADER, kernel, slice_


def launch(number, begin, name="cudaLaunchKernel"):
    return slice_("cuda_runtime", name, begin, begin + 10, correlation=number)


EVENTS = [
    slice_("python_function", "train.py(1): step", 0, 1000),
    # 20 + 30 ns: one operator in another, twice.
    slice_("cpu_op", "aten::conv2d", 10, 200),
    slice_("cpu_op", "aten::cudnn_convolution", 20, 100),
    launch(1, 30), launch(2, 60),
    kernel("sm90_xmma", 300, 320, 1), kernel("sm90_xmma", 330, 360, 2),
    slice_("cpu_op", "aten::add_", 110, 150),
    launch(3, 120), kernel("void add<float>(float*)", 370, 374, 3),
    # Launched by the program itself, as a graph, and before the recording.
    launch(4, 210), kernel("triton_poi", 400, 406, 4),
    launch(5, 230, "cudaGraphLaunch"), kernel("a", 410, 418, 5), kernel("b", 420, 421, 5),
    kernel("early", 5, 16, 999),
    # A graph that an operator launches is the operator's.
    slice_("cpu_op", "CompiledFxGraph", 300, 400),
    launch(6, 310, "hipGraphLaunch"), kernel("c", 500, 502, 6),
]  # fmt: skip


@pytest.fixture
def imported(db, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**HEADER, "traceEvents": EVENTS}))
    (profile,) = read(path, SILENT)
    add_profile(db, profile)
    return db


def on_gpu(db, by):
    table = values(db, Question((1,), ("time",), ("kind", by), values=("exclusive",)))
    rows = zip(table.row_labels("kind"), table.row_labels(by), table.column("exclusive", "time"),
               strict=True)  # fmt: skip
    return {label: time for kind, label, time in rows if kind == "gpu" and time}


def test_gpu_work_belongs_to_the_nearest_operator_and_what_has_none_says_why(imported):
    assert on_gpu(imported, "operator") == {
        "aten::cudnn_convolution": 50,
        "aten::add_": 4,
        NONE: 6,
        GRAPH: 9,
        NO_OWNER: 11,
        "CompiledFxGraph": 2,
    }
    assert on_gpu(imported, "outer_operator") == {
        "aten::conv2d": 54,
        NONE: 6,
        GRAPH: 9,
        NO_OWNER: 11,
        "CompiledFxGraph": 2,
    }


def test_the_view_says_the_same_in_sql(imported):
    rows = imported.rows(
        "SELECT operator, outer_operator, launches, time_ns FROM operators WHERE trial_id = 1"
        " ORDER BY time_ns DESC, operator"
    )
    assert rows == [
        ("aten::cudnn_convolution", "aten::conv2d", 2, 50),
        (None, None, 1 + 1 + 2, 11 + 6 + 9),
        ("aten::add_", "aten::conv2d", 1, 4),
        ("CompiledFxGraph", "CompiledFxGraph", 1, 2),
    ]


def test_host_time_belongs_to_operators_too(imported):
    table = values(imported, Question((1,), ("time",), ("kind", "operator"), values=("exclusive",)))
    rows = zip(*map(table.row_labels, ("kind", "operator")), table.column("exclusive", "time"),
               strict=True)  # fmt: skip
    host = {label: time for kind, label, time in rows if kind == "host"}
    assert host["aten::conv2d"] == 190 - 80 - 40
    assert sum(host.values()) == 1000


def test_kernels_without_operators_say_how_to_record_them(db, capsys):
    add_profile(db, gpu_profile())
    assert main(["kernels", "--by", "operator", "--db", str(db.path)]) == 0
    assert "no operators were recorded: `taupy run --operators`" in capsys.readouterr().out


@pytest.mark.parametrize("command", [
    ["kernels", "--by"], ["pprof", "--kernels", "--by"], ["pprof", "--by"],
    ["pivot", "--columns", "trial", "--by"], ["compare", "1", "1", "--by"],
], ids=" ".join)  # fmt: skip
def test_commands_sum_by_operators(imported, capsys, command):
    for by, name in (("operator", "aten::cudnn_convolution"), ("outer_operator", "aten::conv2d")):
        assert main([*command, by, "--db", str(imported.path), "--csv"]) == 0
        text = capsys.readouterr().out
        assert name in text and "CompiledFxGraph" in text
