"""Operators as dimensions of GPU work: the nearest and the outermost timer of their group."""

from __future__ import annotations

import csv
import io
import json

import pytest

import taupy.notebook
from taupy.commands import main
from taupy.formats.chrome.trace import read
from taupy.model.gpu import NO_OWNER
from taupy.model.progress import SILENT
from taupy.model.question import Question
from taupy.network.operators import GRAPH, NONE, NOT_OPERATORS
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from taupy.study import versus
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


BY_OPERATOR = {
    "operator": {"aten::cudnn_convolution": 50, NO_OWNER: 11, GRAPH: 9, NONE: 6, "aten::add_": 4,
                 "CompiledFxGraph": 2},
    "outer_operator": {"aten::conv2d": 54, NO_OWNER: 11, GRAPH: 9, NONE: 6, "CompiledFxGraph": 2},
}  # fmt: skip
COMMANDS = {
    "kernels": (["kernels", "1", "--by"], "time_ns"),
    "pprof": (["pprof", "1", "--kernels", "--by"], "time_ns"),
    "pivot": (["pivot", "--columns", "trial", "--by"], "one"),
    "compare, A": (["compare", "1", "2", "--by"], "a_ns"),
    "compare, B": (["compare", "1", "2", "--by"], "b_ns"),
}
SQL = """
    SELECT {by} AS operator, sum(time_ns) AS ns FROM operators WHERE trial_id = 1 GROUP BY 1
"""


@pytest.fixture
def twins(tmp_path):
    path = tmp_path / "taupy.db"
    (tmp_path / "a.json").write_text(json.dumps({**HEADER, "traceEvents": EVENTS}))
    for name in ("one", "two"):
        command = ["import", str(tmp_path / "a.json"), "--trial", name, "--db", str(path)]
        assert main(command) == 0
    return path


@pytest.mark.parametrize("by", BY_OPERATOR)
def test_each_answer_has_the_same_numbers_by_operator(twins, capsys, by):
    """Commands, notebooks, SQL, and the page of two trials."""
    expected = BY_OPERATOR[by]
    for name, (command, column) in COMMANDS.items():
        capsys.readouterr()
        assert main([*command, by, "--csv", "--db", str(twins)]) == 0, name
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        label = by if by in rows[0] else "timer"
        found = {row[label]: float(row[column]) for row in rows if row[column]}
        assert found == expected, name
    notebook = taupy.notebook.open(twins)
    kernels = notebook.trial("1").kernels(by=by)
    compared = notebook.compare("1", "2", by=by)
    sql = notebook.sql(SQL.format(by=by))
    assert dict(zip(kernels[by], kernels["time_ns"], strict=True)) == expected
    for side in ("a_ns", "b_ns"):
        assert dict(zip(compared["timer"], compared[side], strict=True)) == expected
    named = {name: ns for name, ns in expected.items() if name not in NOT_OPERATORS}
    of_sql = dict(zip(sql["operator"], sql["ns"], strict=True))
    assert {name: ns for name, ns in of_sql.items() if name in named} == named
    assert sum(of_sql.values()) == sum(expected.values())
    if by == "operator":
        with ProfileDB.open(twins) as db:
            contents, _ = versus.of_sides(db, "1", "2")
        (tab,) = (section for section in contents.sections if section.name == "operators")
        bars = {bar.name: bar.parts[0][2] for bar in tab.parts[0].bars if bar.name}
        assert bars == named


def test_the_launch_sites_of_a_kernel_have_the_time_of_their_operator(twins, capsys):
    capsys.readouterr()
    assert main(["kernel", "sm90_xmma", "--trial", "1", "--csv", "--db", str(twins)]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert int(row["time_ns"]) == BY_OPERATOR["operator"]["aten::cudnn_convolution"]
    assert " => aten::conv2d => aten::cudnn_convolution => " in row["callpath"]
