"""The operators of a CUDA graph, from the trace of its capture."""

from __future__ import annotations

import json

import pytest

from taupy.commands import main
from taupy.formats.chrome import trace
from taupy.formats.chrome.capture import captured
from taupy.model import invariants
from taupy.model.progress import SILENT
from taupy.profiledb.database import ProfileDB
from tests.unit.formats.chrome_files import HEADER, kernel, slice_
from tests.unit.formats.test_nsys import paths
from tests.unit.profiledb.test_operators import on_gpu


def launch(number, begin, name="cudaLaunchKernel", **args):
    return slice_("cuda_runtime", name, begin, begin + 5, correlation=number, **args)


def capture(names=(None,) * 3):
    """A warm-up that runs, then three launches that make nodes."""
    named = [{"kernel": name} if name else {} for name in names]
    return [
        slice_("cpu_op", "aten::mm", 0, 50), launch(1, 10), kernel("gemm", 60, 70, 1),
        slice_("cpu_op", "aten::linear", 100, 190), slice_("cpu_op", "aten::mm", 110, 150),
        launch(2, 120, **named[0]), launch(3, 160, **named[1]),
        slice_("cpu_op", "aten::relu", 200, 290),
        launch(4, 210, "hipModuleLaunchKernel", **named[2]),
        slice_("cuda_runtime", "cudaStreamSynchronize", 300, 310, correlation=5),
    ]  # fmt: skip


def replay(names=("gemm", "bias", "relu"), launches=2):
    events = [slice_("user_annotation", "decode", 0, 10_000)]
    for number in range(1, 1 + launches):
        events.append(launch(number, 100 * number, "cudaGraphLaunch"))
        begin = 1000 * number
        events += [kernel(name, begin + 100 * at, begin + 100 * at + 10 * at + number, number)
                   for at, name in enumerate(names)]  # fmt: skip
    return events


def written(path, events):
    path.write_text(json.dumps({**HEADER, "traceEvents": events}))
    return path


def test_each_node_of_a_graph_gets_the_operator_of_its_capture(tmp_path, capsys):
    files = written(tmp_path / "r.json", replay()), written(tmp_path / "c.json", capture())
    (profile,) = trace.read(files[0], SILENT, captured(files[1], SILENT))
    assert invariants.check(profile) == []
    host = paths(profile, (0, 0, 0))
    graph = "decode > cudaGraphLaunch"
    assert host[f"{graph} > aten::linear > aten::mm"] == (0, 0, 0), "the host called none"
    stream = paths(profile, (0, 1, 0))
    assert stream[f"{graph} > aten::linear > aten::mm > gemm"][0] == 2
    assert stream[f"{graph} > aten::linear > bias"][0] == 2
    assert stream[f"{graph} > aten::relu > relu"][0] == 2
    db = tmp_path / "taupy.db"
    assert main(["import", str(files[0]), "--capture", str(files[1]), "--db", str(db)]) == 0
    assert "launches of CUDA graphs with the operators of the capture: 2 of 2" in (
        capsys.readouterr().err
    )
    with ProfileDB.open(db) as opened:
        assert on_gpu(opened, "operator") == {
            "aten::mm": 1 + 2, "aten::linear": 11 + 12, "aten::relu": 21 + 22,
        }  # fmt: skip
        assert on_gpu(opened, "outer_operator") == {"aten::linear": 26, "aten::relu": 43}
        assert opened.verify() == []


@pytest.mark.parametrize("events, reason", [
    (replay(("gemm", "bias")), "it made 3 nodes, and the graphs ran 2 kernels and copies"),
    (replay(("gemm", "relu", "bias")), "ran 3 kernels and copies, in another order or with other"),
    ([*replay(launches=0), launch(9, 5), kernel("gemm", 20, 30, 9)], "has no work of a CUDA"),
])  # fmt: skip
def test_the_capture_of_another_graph_is_refused_in_a_line(tmp_path, capsys, events, reason):
    files = (
        written(tmp_path / "r.json", events),
        written(tmp_path / "c.json", capture(("gemm", "bias", "relu"))),
    )
    db = str(tmp_path / "taupy.db")
    assert main(["import", str(files[0]), "--capture", str(files[1]), "--db", db]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line


def test_graphs_of_other_sizes_stay_without_operators(tmp_path):
    other = [launch(7, 500, "cudaGraphLaunch"), kernel("gemm", 5000, 5009, 7)]
    files = written(tmp_path / "r.json", replay() + other), written(tmp_path / "c.json", capture())
    (profile,) = trace.read(files[0], SILENT, captured(files[1], SILENT))
    stream = paths(profile, (0, 1, 0))
    assert stream["decode > cudaGraphLaunch > gemm"][0] == 1
    assert stream["decode > cudaGraphLaunch > aten::relu > relu"][0] == 2


def test_a_model_captured_in_pieces_has_the_operators_of_each_piece(tmp_path, capsys):
    """Pieces of one length, as those of a model's layers, run in the order of their capture."""
    events, layers = [], ("aten::add", "aten::mul", "aten::add")
    for piece, operator in enumerate(layers):
        begin = 1000 * piece
        events += [
            slice_("cpu_op", operator, begin, begin + 90), launch(2 * piece + 10, begin + 10),
            launch(2 * piece + 11, begin + 30),
            slice_("cuda_runtime", "cudaStreamEndCapture", begin + 100, begin + 110,
                   correlation=100 + piece),
        ]  # fmt: skip
    files = (
        written(tmp_path / "r.json", replay(("k", "k"), launches=4)),
        written(tmp_path / "c.json", events),
    )
    (profile,) = trace.read(files[0], SILENT, captured(files[1], SILENT))
    stream = paths(profile, (0, 1, 0))
    graph = "decode > cudaGraphLaunch"
    assert {path: counts[0] for path, counts in stream.items() if path.endswith("> k")} == {
        f"{graph} > aten::add > k": 3 * 2, f"{graph} > aten::mul > k": 2,
    }  # fmt: skip
    db = str(tmp_path / "taupy.db")
    files = written(tmp_path / "r.json", replay(("k",), launches=1)), files[1]
    assert main(["import", str(files[0]), "--capture", str(files[1]), "--db", db]) == 1
    assert "it made graphs of 2 nodes, and the graphs ran 1 " in capsys.readouterr().err


def test_without_names_nodes_on_several_streams_are_not_told_apart(tmp_path):
    events = replay(launches=1)
    events[-1] = kernel("relu", 1300, 1310, 1, stream=8)
    files = written(tmp_path / "r.json", events), written(tmp_path / "c.json", capture())
    db = str(tmp_path / "taupy.db")
    assert main(["import", str(files[0]), "--capture", str(files[1]), "--db", db]) == 1


def test_what_is_no_capture_is_refused(tmp_path, capsys):
    ran = [launch(1, 10), kernel("gemm", 60, 70, 1)]
    files = written(tmp_path / "r.json", replay()), written(tmp_path / "c.json", ran)
    db = str(tmp_path / "taupy.db")
    assert main(["import", str(files[0]), "--capture", str(files[1]), "--db", db]) == 1
    assert "no graph was captured in it" in capsys.readouterr().err
    assert main(["import", str(files[0]), "--capture", str(tmp_path / "no"), "--db", db]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    both = [str(file) for file in files]
    assert main(["import", *both, "--capture", both[1], "--db", db]) == 2
