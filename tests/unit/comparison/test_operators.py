"""GPUs compared by operator: traces made by hand, traces that lose calls, and public ones."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from taupy.commands import main
from taupy.comparison import operator_calls
from taupy.formats.operator_inputs import signature_of
from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import call, database_at, gpu_profile, host, profile_of
from tests.once import once
from tests.unit.formats.chrome_files import HEADER, kernel, slice_
from tests.unit.roofline.build import Kernel, Partly, gpu_trial

SHARED = Path(os.environ.get("TAUPY_SHARED_DATA") or "/nonexistent") / "traces"


class Trace:
    """A trace of operators, one launch of some kernels each."""

    def __init__(self, gpu: str, api: str = "cuda") -> None:
        self.gpu, self.api = gpu, api
        self.events: list[dict] = []
        self.now = 0

    def operator(self, names, *kernels, before=False, sizes=None, types=None):
        """Operators, the outer one first, and what it runs: (kernel, ns)."""
        begin = self.now
        self.now += 1000
        if not before:
            inputs = {} if sizes is None else {"Input Dims": sizes, "Input type": types}
            for depth, name in enumerate(names):
                self.events.append(
                    slice_("cpu_op", name, begin + depth, begin + 900 - depth, **inputs)
                )
        for at, (name, took) in enumerate(kernels):
            number = len(self.events) + 1
            if not before:
                self.events.append(slice_("cuda_runtime", f"{self.api}LaunchKernel",
                                          begin + 100 + 10 * at, begin + 105 + 10 * at,
                                          correlation=number))  # fmt: skip
            start = 10_000_000 + 1000 * begin + 100 * at
            self.events.append(kernel(name, start, start + took, number))

    def written(self, path: Path) -> Path:
        header = json.loads(json.dumps(HEADER))
        header["deviceProperties"][0]["name"] = self.gpu
        path.write_text(json.dumps({**header, "traceEvents": self.events}))
        return path


def import_all(files, database):
    for file in files:
        assert main(["import", str(file), "--db", str(database)]) == 0


@pytest.fixture
def shown(tmp_path, capsys, tmp_path_factory):
    """Import files, compare them by operator: the rows by name, and what is said beside them.
    Public ones, which are large, are imported once for all tests."""

    def show(*files, by="operator", options=()):
        database = tmp_path / "taupy.db"
        if files and all(file.parent == SHARED for file in files):
            name = "-".join(["operators", *(file.name for file in files)])
            made = once(
                tmp_path_factory, name, lambda folder: import_all(files, folder / "taupy.db")
            )
            shutil.copy(made / "taupy.db", database)
        else:
            import_all(files, database)
        db = ["--db", str(database)]
        capsys.readouterr()
        code = main(["compare", "1", "2", "--by", by, "--csv", *options, *db])
        out, err = capsys.readouterr()
        assert code == 0, err
        rows = {row["timer"]: row for row in csv.DictReader(io.StringIO(out))}
        return rows, [line.removeprefix("taupy: ") for line in err.splitlines()]

    return show


def pair_of_vision_models(tmp_path, lost=0.0, seed=7):
    """The same work: a convolution has another operator on each GPU, a kernel another name, and
    one side fills what the other does not; work from before the recording on both."""
    one, two = Trace("NVIDIA H100 80GB HBM3"), Trace("AMD Instinct MI300X", "hip")
    draw, left = random.Random(seed), Counter()

    def run(names, first, second):
        one.operator(names[0], *first)
        if draw.random() >= lost:
            left[names[1][-1]] += 1
            two.operator(names[1], *second)

    one.operator([], ("early", 5000), before=True)
    two.operator([], ("earlier", 7000), before=True)
    conv = ["aten::conv2d", "aten::convolution"]
    for _ in range(40):
        run(
            [[*conv, "aten::cudnn_convolution"], [*conv, "aten::miopen_convolution"]],
            [("sm90_xmma_fprop", 300)],
            [("miopenSp3AsmConv", 100), ("SubTensorOp", 11)],
        )
        run([["aten::linear", "aten::addmm"]] * 2, [("sm90_gemm", 200)],
            [("Cijk_Ailk", 250), ("Cijk_post", 10)])  # fmt: skip
        run([["aten::gelu"]] * 2, [("void gelu<4>()", 50)], [("void gelu<8>()", 40)])
    two.operator(["aten::zeros", "aten::fill_"], ("fill", 9))
    files = one.written(tmp_path / "h100.json"), two.written(tmp_path / "mi300.json")
    return files, left


def test_operators_are_paired_by_name_then_by_the_outermost(tmp_path, shown):
    rows, said = shown(*pair_of_vision_models(tmp_path)[0])
    conv = rows["aten::conv2d: aten::cudnn_convolution = aten::miopen_convolution"]
    told = tuple(conv[name] for name in ("match", "in", "calls_a", "calls_b"))
    assert told == ("outer", "all", "40", "40")
    assert (float(conv["a_ns"]), float(conv["b_ns"])) == (40 * 300, 40 * 111)
    assert float(conv["per_call_b_ns"]) == 111, "of a call, which may launch several kernels"
    assert conv["kernels_a"] == "sm90_xmma_fprop"
    assert conv["kernels_b"] == "miopenSp3AsmConv | SubTensorOp"
    addmm = rows["aten::addmm"]
    assert (addmm["match"], float(addmm["ratio"])) == ("same", 1.3)
    assert rows["aten::fill_"]["in"] == "only B"
    whole_b = 40 * (111 + 260 + 40) + 9
    assert said[0] == (
        "paired, of the GPU time: A 100 %, B 99.9 % (by name A 45.4 %, B 72.9 %; by the outermost "
        "operator A 54.5 %, B 26.9 %); not counted, since launched from an unknown place: "
        "A 5.00 us, B 7.00 us"
    )
    assert 99.9 < 100 * (whole_b - 9) / whole_b < 100


@pytest.mark.parametrize("seed", range(3))
def test_calls_that_are_missing_change_numbers_and_pair_no_name_wrongly(tmp_path, shown, seed):
    files, left = pair_of_vision_models(tmp_path, 0.1, seed)
    assert 0 < sum(left.values()) < 120
    rows, _ = shown(*files)
    for name, row in rows.items():
        if row["match"] == "outer":
            assert name == "aten::conv2d: aten::cudnn_convolution = aten::miopen_convolution"
            assert int(float(row["calls_b"])) == left["aten::miopen_convolution"]
        elif row["in"] == "all" and row["calls_b"]:
            assert int(float(row["calls_b"])) == left[name]
            assert float(row["calls_a"]) == 40
    assert {name for name, row in rows.items() if row["in"] != "all"} == {"aten::fill_"}


def test_by_the_outermost_operator_everything_has_its_name(tmp_path, shown):
    rows, said = shown(*pair_of_vision_models(tmp_path)[0], by="outer_operator")
    assert float(rows["aten::conv2d"]["ratio"]) == 0.37
    assert float(rows["aten::conv2d"]["calls_a"]) == 40
    assert "all by name" in said[0]


@pytest.mark.parametrize("by", ["operator", "outer_operator"])
def test_a_pivot_by_operator_has_the_numbers_of_a_comparison(tmp_path, shown, capsys, by):
    rows, _ = shown(*pair_of_vision_models(tmp_path)[0], by=by)
    db = str(tmp_path / "taupy.db")
    assert main(["pivot", "--rows", by, "--columns", "gpu", "--csv", "--db", db]) == 0
    columns = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"
    pivoted = {
        row[by]: [float(cell) if (cell := row[gpu]) else None for gpu in columns]
        for row in csv.DictReader(io.StringIO(capsys.readouterr().out))
    }
    compared = {
        name: [float(cell) if (cell := row[f"{side}_ns"]) else None for side in "ab"]
        for name, row in rows.items()
    }
    assert pivoted == compared


def test_calls_and_time_per_call_are_those_of_operators(tmp_path, shown):
    files, _ = pair_of_vision_models(tmp_path)
    rows, _ = shown(*files, options=["--value", "exclusive-per-call"])
    assert float(rows["aten::addmm"]["b_ns"]) == 260
    rows, _ = shown(options=["--value", "inclusive"])
    assert float(rows["aten::addmm"]["b_ns"]) == 40 * 260
    rows, _ = shown(options=["--value", "inclusive-per-call"])
    assert float(rows["aten::addmm"]["b_ns"]) == 260
    rows, _ = shown(options=["--filter", "sm90_gemm"])
    assert {name: row["in"] for name, row in rows.items()} == {"aten::addmm": "only A"}
    rows, _ = shown(options=["--value", "calls"])
    assert float(rows["aten::addmm"]["b_call"]) == 40


def with_inputs(gpu, api, conv, took):
    """Two matrices of one size, one of another on each GPU, a convolution, one call unknown."""
    trace = Trace(gpu, api)
    floats = ["float", "c10::BFloat16", "Scalar"]
    for size in (8, 8, took):
        trace.operator(["aten::matmul", "aten::mm"], (f"gemm_{gpu}", took),
                       sizes=[[size, 4], [4, 2], []], types=floats)  # fmt: skip
    trace.operator(["aten::conv2d", conv], ("conv", took), ("post", 1),
                   sizes=[[2, 3, 9, 9], [[1], [2]]], types=["float", "TensorList"])  # fmt: skip
    trace.operator(["aten::mm"], (f"gemm_{gpu}", 5))
    return trace


def test_operators_are_divided_by_the_sizes_and_types_of_their_inputs(tmp_path, shown):
    one = with_inputs("NVIDIA H100 80GB HBM3", "cuda", "aten::cudnn_convolution", 100)
    two = with_inputs("NVIDIA H200", "cuda", "aten::other_convolution", 50)
    files = one.written(tmp_path / "a.json"), two.written(tmp_path / "b.json")
    rows, said = shown(*files, by="signature")
    columns = ("in", "match", "a_ns", "b_ns", "calls_a", "calls_b", "per_call_b_ns")
    mm, conv = "aten::mm(float32[{}x4], bfloat16[4x2])", "{}(float32[2x3x9x9], ([1] [2]))"
    both = f"{conv}: {conv} = {conv}".format(
        "aten::conv2d", "aten::cudnn_convolution", "aten::other_convolution"
    )
    assert {name: tuple(row[column] for column in columns) for name, row in rows.items()} == {
        mm.format(8): ("all", "same", "200.0", "100.0", "2", "2", "50.0"),
        mm.format(100): ("only A", "same", "100.0", "", "1", "", ""),
        mm.format(50): ("only B", "same", "", "50.0", "", "1", "50.0"),
        both: ("all", "outer", "101.0", "51.0", "1", "1", "51.0"),
        "aten::mm (inputs not recorded)": ("all", "same", "5.0", "5.0", "", "", ""),
    }
    assert said[0].startswith("paired, of the GPU time: A 75.3 %, B 75.7 % (by name A 50.4 %")
    assert "datasheet" in said[1]
    by_calls, _ = shown(by="signature", options=["--value", "calls"])
    assert by_calls[both]["a_call"] == "1"
    by_operator, _ = shown()
    assert sum(float(row["a_ns"] or 0) for row in rows.values()) == sum(
        float(row["a_ns"] or 0) for row in by_operator.values()
    )


def test_signatures_have_the_kernels_of_their_calls(tmp_path, shown):
    """Operators of one call path, told apart by launches and times; what these do not tell, is not
    said."""
    trace = Trace("NVIDIA H200")

    def run(name, size, *kernels):
        sizes = None if size is None else [[size, 4]]
        trace.operator([name], *kernels, sizes=sizes, types=None if size is None else ["float"])

    run("aten::mm", 8, ("gemm_small", 10), ("split", 3))
    run("aten::relu", 8, ("relu", 4))
    run("aten::relu", 16, ("relu", 9))
    run("aten::add", 8, ("add_vector", 4))
    run("aten::add", 16, ("add_scalar", 9), ("add_scalar", 9))
    run("aten::mul", 8, ("mul_vector", 4))
    run("aten::mul", 16, ("mul_scalar", 4))
    run("aten::sub", None, ("sub", 2))
    run("aten::neg", 8, ("neg", 4))
    run("aten::neg", None, ("fill", 4), ("neg", 5))  # fill has the numbers of the other call
    trace.operator([], ("triton", 5))
    file = trace.written(tmp_path / "a.json")
    rows, _ = shown(file, file, by="signature")
    assert {name: row["kernels_a"] for name, row in rows.items()} == {
        "aten::mm(float32[8x4])": "gemm_small | split",
        "aten::relu(float32[8x4])": "relu",
        "aten::relu(float32[16x4])": "relu",
        "aten::add(float32[8x4])": "add_vector",
        "aten::add(float32[16x4])": "add_scalar",
        "aten::mul(float32[8x4])": "",
        "aten::mul(float32[16x4])": "",
        "aten::sub (inputs not recorded)": "sub",
        "aten::neg(float32[8x4])": "",
        "aten::neg (inputs not recorded)": "",
        "(no operator)": "triton",
    }
    assert all(row["kernels_b"] == row["kernels_a"] for row in rows.values())


def test_what_is_not_known_by_signature_is_refused(tmp_path, capsys):
    path = tmp_path / "taupy.db"
    for number in (1, 2):
        trace = Trace("NVIDIA H200")
        trace.operator(["aten::mm"], ("gemm", 100))
        file = trace.written(tmp_path / f"{number}.json")
        assert main(["import", str(file), "--db", str(path)]) == 0
    compared = ["compare", "1", "2", "--by", "signature", "--db", str(path)]
    assert main(compared) == 1
    assert "trial 1 has no sizes of operators' inputs: record them with" in capsys.readouterr().err
    assert main([*compared, "--over", "max"]) == 2
    assert "--by signature takes no" in capsys.readouterr().err


def test_roofs_are_facts_about_the_gpus(tmp_path, shown):
    for number, gpu in enumerate(("NVIDIA H100 80GB HBM3", "NVIDIA H200")):
        trace = Trace(gpu)
        trace.operator(["aten::mm"], ("gemm", 100))
        trace.written(tmp_path / f"{number}.json")
    _, said = shown(tmp_path / "0.json", tmp_path / "1.json")
    assert said[1] == (
        "roofs of NVIDIA H100 80GB HBM3 and NVIDIA H200 (datasheet): work takes B / A = 0.698 if "
        "its DRAM is the bound, 0.985 to 1 if its arithmetic is; which one bounds a row is not "
        "said by this"
    )


def test_a_row_says_how_near_to_the_roof_its_kernels_come(tmp_path, capsys):
    """1 ms of DRAM is 3.352 GB on an H100, 4.8 GB on an H200; of fp32 66.9 Gflop on the first."""

    def counted(number, gpu, dram):
        small = {"flop_fp32": 1.0, "flop_fp64": 0}
        half, all_of_it = dram * 0.5, dram * 0.9
        profile = gpu_trial(
            Kernel("gemm", 4, 1_000_000, {**small, "bytes_dram": half}, phase="aten::mm"),
            Kernel("split", 4, 3_000_000, {**small, "bytes_dram": 3 * all_of_it}, phase="aten::mm"),
            Kernel("add", 2, 1_000_000, {"flop_fp32": 0.25 * 66.9e9, "bytes_dram": 1.0},
                   phase="aten::add"),
            Partly("relu", 2, 1_000_000, {"bytes_dram": half}, phase="aten::relu"),
            gpu=gpu, number=number,
        )  # fmt: skip
        profile.timers = [
            timer._replace(groups=("OPERATOR",)) if "PHASE" in timer.groups else timer
            for timer in profile.timers
        ]
        return profile

    path = tmp_path / "taupy.db"
    with database_at(path) as db:
        add_profile(db, counted(1, "NVIDIA H100 80GB HBM3", 3.352e9))
        add_profile(db, counted(2, "NVIDIA H200", 4.8e9))
    for by in ("operator", "outer_operator"):
        assert main(["compare", "1", "2", "--by", by, "--csv", "--db", str(path)]) == 0
        rows = {row["timer"]: row
                for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}  # fmt: skip
        shares = {name: (row["roof_a"], row["roof_b"]) for name, row in rows.items()}
        assert float(shares["aten::mm"][0]) == pytest.approx((0.5 + 3 * 0.9) / 4 * 100)
        assert float(shares["aten::mm"][1]) == pytest.approx((0.5 + 3 * 0.9) / 4 * 100)
        assert float(shares["aten::add"][0]) == pytest.approx(25)
        assert shares["aten::relu"] == ("", ""), "its operations were not counted"
    assert main(["compare", "1", "2", "--by", "operator", "--db", str(path)]) == 0
    assert "% of roof" in capsys.readouterr().out


def test_without_counters_no_share_of_a_roof_is_said(tmp_path, shown):
    rows, _ = shown(*pair_of_vision_models(tmp_path)[0])
    assert "roof_a" not in rows["aten::addmm"]


def test_a_trial_without_operators_says_how_to_record_them(tmp_path, capsys):
    path = tmp_path / "taupy.db"
    with database_at(path) as db:
        add_profile(db, gpu_profile(1))
        add_profile(db, gpu_profile(2))
    assert main(["compare", "1", "2", "--by", "operator", "--db", str(path)]) == 1
    said = capsys.readouterr().err
    assert "trial 1 has no GPU work in operators: record them with `taupy run --operators" in said
    assert "0 %" not in said


def test_without_a_gpu_host_time_is_compared(tmp_path, capsys):
    path = tmp_path / "taupy.db"

    def profile(number, took):
        mm = call(Timer("aten::mm", groups=("OPERATOR",)), 4, took)
        return profile_of(host(call("main", 1, 100, [mm])), number=number)

    with database_at(path) as db:
        add_profile(db, profile(1, 400))
        add_profile(db, profile(2, 300))
    assert main(["compare", "1", "2", "--by", "operator", "--csv", "--db", str(path)]) == 0
    out, err = capsys.readouterr()
    rows = {row["timer"]: row for row in csv.DictReader(io.StringIO(out))}
    assert (rows["aten::mm"]["ratio"], rows["aten::mm"]["per_call_b_ns"]) == ("0.75", "75.0")
    assert "paired, of the host time in operators: A 100 %, B 100 %, all by name" in err


# --- public traces ---------------------------------------------------------------


@pytest.mark.skipif(not SHARED.is_dir(), reason="TAUPY_SHARED_DATA names no data")
@pytest.mark.parametrize("model, said, ratios, alone", [
    ("qwen", "A 100 %, B 99.6 %, all by name",
     {"aten::mm": 1.299, "aten::mul": 0.672, "aten::copy_": 0.625, "aten::addmm": 1.269,
      "aten::_flash_attention_forward": 1.436}, {"aten::fill_": "only B"}),
    ("bert", "A 100 %, B 100 %, all by name",
     {"aten::_flash_attention_forward": 3.038, "aten::addmm": 0.881, "aten::gelu": 2.263}, {}),
])  # fmt: skip
def test_an_h100_and_an_mi300_running_one_model(shown, model, said, ratios, alone):
    files = [SHARED / f"{model}_{gpu}.json.gz" for gpu in ("h100", "mi300")]
    rows, remarks = shown(*files)
    assert said in remarks[0]
    assert {name: round(float(rows[name]["ratio"]), 3) for name in ratios} == pytest.approx(
        ratios, abs=0.0011
    )
    assert {name: row["in"] for name, row in rows.items() if row["in"] != "all"} == alone
    for file, column in zip(files, ("a_ns", "b_ns"), strict=True):
        with gzip.open(file, "rt") as text:
            events = json.load(text)["traceEvents"]
        works = [event["dur"] for event in events
                 if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]  # fmt: skip
        known = sum(float(row[column] or 0) for row in rows.values())
        assert known == pytest.approx(1000 * sum(works), abs=len(works) / 2)


@pytest.mark.skipif(not SHARED.is_dir(), reason="TAUPY_SHARED_DATA names no data")
def test_public_signatures_have_the_kernels_of_the_raw_file(shown):
    files = [SHARED / f"qwen_{gpu}.json.gz" for gpu in ("h100", "mi300")]
    rows, _ = shown(*files, by="signature")
    for file, column in zip(files, ("kernels_a", "kernels_b"), strict=True):
        with gzip.open(file, "rt") as text:
            events = json.load(text)["traceEvents"]
        operators = {event["args"].get("External id"): event
                     for event in events if event.get("cat") == "cpu_op"}  # fmt: skip
        kernels: dict[str, set[str]] = {}
        for event in events:
            if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
                continue
            owner = operators.get(event["args"].get("External id", -1))
            label = "(launched from an unknown place)"
            if owner is not None:
                inputs = owner["args"]
                told = signature_of(inputs.get("Input Dims"), inputs.get("Input type"))
                label = f"{owner['name']}({told})"
            kernels.setdefault(label, set()).add(event["name"])
        named = {name: set(row[column].split(" | ")) for name, row in rows.items() if row[column]}
        assert named == kernels


@pytest.mark.skipif(not SHARED.is_dir(), reason="TAUPY_SHARED_DATA names no data")
@pytest.mark.parametrize("model", ["qwen", "bert"])
def test_public_calls_keep_their_partners_where_others_are_missing(tmp_path, shown, model):
    """2 and 10 % of the calls of one side are removed; a pair is right if it is one of all."""
    shown(*(SHARED / f"{model}_{gpu}.json.gz" for gpu in ("h100", "mi300")))
    with ProfileDB.open(tmp_path / "taupy.db") as db:
        (first,), (second,) = (
            operator_calls.operator_calls(db, trial).values() for trial in (1, 2)
        )
    whole = operator_calls.partners(first, second)
    assert len(whole) >= 0.99 * len(first)
    draw = random.Random(3)
    for removed, least in ((0.02, 0.99), (0.1, 0.96)):
        right = pairs = 0
        for _ in range(20):
            places = [at for at in range(len(second)) if draw.random() >= removed]
            found = operator_calls.partners(first, [second[at] for at in places])
            right += sum(whole.get(places[two]) == one for two, one in found.items())
            pairs += len(found)
        assert pairs >= 0.97 * (1 - removed) * 20 * len(second)
        assert right >= least * pairs


@pytest.mark.skipif(not SHARED.is_dir(), reason="TAUPY_SHARED_DATA names no data")
def test_calls_of_cuda_and_hip_are_compared(shown):
    files = [SHARED / f"qwen_{gpu}.json.gz" for gpu in ("h100", "mi300")]
    rows, _ = shown(*files, by="routine", options=["--group", "CUDA_API"])
    both = {name: (row["match"], row["calls_a"], row["calls_b"])
            for name, row in rows.items() if row["in"] == "all"}  # fmt: skip
    assert both == {
        "cudaLaunchKernel": ("api", "860", "860"),
        "cudaDeviceSynchronize": ("api", "2", "2"),
    }
    assert rows["hipMemcpyWithStream"]["in"] == "only B", "CUDA has no such call"


def test_calls_of_an_operator_are_compared_one_by_one(tmp_path, shown, capsys):
    """The second of three calls is missing on one side; the others of its place are not."""
    files = []
    for number, missing in enumerate((None, 1)):
        trace = Trace(("NVIDIA H100 80GB HBM3", "AMD Instinct MI300X")[number])
        inputs = {"sizes": [[8, 4], [4, 2]], "types": ["float", "float"]}
        for layer in range(3):
            names = ["aten::silu"] if layer == missing else ["aten::matmul", "aten::mm"]
            gemms = [(f"gemm_{number}", 100 * (layer + 1))] * (number + 1)
            trace.operator(names, *gemms, **inputs)
            trace.operator([f"aten::relu_{layer}"], ("relu", 5), **inputs)
        files.append(trace.written(tmp_path / f"{number}.json"))
    rows, said = shown(*files, by="signature", options=["--filter", "aten::mm"])
    mm = "aten::mm(float32[8x4], float32[4x2])"
    columns = ("match", "in", "a_ns", "b_ns", "kernels_a", "kernels_b")
    assert {name: tuple(row[column] for column in columns) for name, row in rows.items()} == {
        f"{mm} #1": ("order", "all", "100.0", "200.0", "gemm_0", "gemm_1"),
        f"{mm} #2": ("same", "only A", "200.0", "", "gemm_0", ""),
        f"{mm} #3 = {mm} #2": ("order", "all", "300.0", "600.0", "gemm_0", "gemm_1"),
    }
    assert said[0] == "calls paired in the order of their launches: A 2 of 3, B 2 of 2"
    db = ["--by", "signature", "--db", str(tmp_path / "taupy.db"), "--filter"]
    assert main(["compare", "1", "2", *db, "aten::matmul"]) == 2
    assert (
        "no operator with GPU work 'aten::matmul' (there are: aten::mm" in capsys.readouterr().err
    )
    assert main(["compare", "1", "2", *db, "mm", "--value", "calls"]) == 2
    assert "with --filter, exclusive only" in capsys.readouterr().err


@pytest.mark.skipif(not SHARED.is_dir(), reason="TAUPY_SHARED_DATA names no data")
def test_public_kernels_without_operators_are_paired_by_order(tmp_path, shown):
    files = []
    for gpu in ("h100", "mi300"):
        with gzip.open(SHARED / f"bert_{gpu}.json.gz", "rt") as text:
            trace = json.load(text)
        trace["traceEvents"] = [
            event for event in trace["traceEvents"] if event.get("cat") != "cpu_op"
        ]
        files.append(tmp_path / f"{gpu}.json")
        files[-1].write_text(json.dumps(trace))
    rows, said = shown(*files, by="kernel")
    whole = {side: sum(float(row[f"{side}_ns"] or 0) for row in rows.values()) for side in "ab"}
    both = {side: sum(float(row[f"{side}_ns"]) for row in rows.values() if row["in"] == "all")
            for side in "ab"}  # fmt: skip
    assert all(both[side] >= 0.9 * whole[side] for side in "ab"), "13.7 and 13.5 % by name"
    flash = rows["pytorch_flash::flash_fwd_kernel = attn_fwd"]
    assert flash["match"] == "order" and round(float(flash["ratio"]), 3) == 3.038
    assert any(line.endswith("matched by the order of launches, which may err") for line in said)
    exact, _ = shown(by="kernel", options=["--match", "template"])
    assert not any(row["match"] == "order" for row in exact.values())
