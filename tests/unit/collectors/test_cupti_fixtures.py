"""What CUPTI gave on a GPU, replayed without one: buffers of records and images of counters.

`tests/gpu/record.py` keeps the former, a run with TAUPY_GPU_SAVE=FOLDER and --metrics the latter.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from taupy.analysis import gpu_idle
from taupy.collectors.cupti_errors import cupti_version
from taupy.collectors.gpu_layout import KERNEL
from taupy.model import gpu_time
from taupy.model.invariants import check
from taupy.model.kernel_names import demangled
from taupy.model.profile import Timer
from taupy.model.question import Condition, Question
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from taupy.record.gpu_part import GpuPart
from tests.fake_gpu import PRELUDE
from tests.gpu import calls
from tests.gpu.comparison import of_profile, stored
from tests.unit.collectors.rebuilt import rebuilt
from tests.unit.collectors.test_cupti_records import Records, collector, replay

__all__ = ["collector"]


TESTS = Path(__file__).parents[2]
DATA = TESTS / "data" / "cupti"
RECORD, TRAINING = TESTS / "gpu" / "record.py", TESTS / "fake_gpu" / "two_gpus.py"


def read_fixture(folder: Path) -> Records:
    """The buffers of all processes of a recorded folder, with their names put in again."""
    records = None
    for path in sorted(folder.glob("*.buffers")):
        first, *lines = path.with_suffix(".names").read_text().splitlines()
        version = cupti_version(int(first.split()[1]))
        records = records or Records(version)
        texts = {int(line.split(" ", 1)[0], 16): line.split(" ", 1)[1] for line in lines}
        data = path.read_bytes()
        place = 0
        while place < len(data):
            (valid,) = struct.unpack_from("<Q", data, place)
            buffer = data[place + 8 : place + 8 + valid]
            names = {}
            for pointer, text in texts.items():  # wherever the pointer stands
                found = buffer.find(pointer.to_bytes(8, "little"))
                while found >= 0:
                    names[found] = text
                    found = buffer.find(pointer.to_bytes(8, "little"), found + 1)
            records.steps.append(("records", buffer, names))
            place += 8 + valid
    assert records is not None
    return records


def kernels(part: GpuPart) -> dict[str, list[int]]:
    sums: dict[str, list[int]] = {}
    for work in part.work:
        if work.kind == KERNEL:
            of_name = sums.setdefault(demangled(part.names[work.name]), [0, 0])
            of_name[0] += work.launches
            of_name[1] += work.time
    return sums


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """Folders of what was recorded on GPUs: those of the repository, and others' if there are."""
    folder = tmp_path_factory.mktemp("recorded")
    for packed in DATA.glob("*.tar.xz"):
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
    shared = os.environ.get("TAUPY_SHARED_DATA")
    for other in Path(shared, "cupti").glob("*") if shared else ():
        (folder / other.name).symlink_to(other)
    return folder


def test_buffers_that_were_recorded_on_a_gpu_give_the_same_kernels(collector, recorded, tmp_path):
    """Of a training on an H200: CNN with mixed precision, LSTM, a CUDA graph replayed ten times."""
    folders = sorted(path.parent for path in recorded.glob("*/expected.json"))
    assert "h200_torch_steps" in [folder.name for folder in folders]
    for number, folder in enumerate(folders):
        (tmp_path / str(number)).mkdir()
        part = replay(collector, tmp_path / str(number), read_fixture(folder))
        assert kernels(part) == json.loads((folder / "expected.json").read_text())


def test_kernels_outside_of_graphs_are_told_from_those_in_them(collector, recorded, tmp_path):
    """1,306 launches and ten replays of a graph of two nodes: torch.profiler saw the same."""
    part = replay(collector, tmp_path, read_fixture(recorded / "h200_torch_steps"))
    assert (part.counters["kernels"], part.counters["arrived"]) == (1326, 1306)
    assert part.counters["untimed"] == part.counters["converted"] == 0
    # 18 allocations of 277,138,952 bytes in all, two releases of 35,651,584.
    assert [one.live for one in part.live if one.kind == 3] == [241_487_368]


@pytest.mark.slow
def test_what_a_run_saves_replays_to_the_same_kernels(collector, played_gpu, tmp_path):
    saved = tmp_path / "saved"
    (tmp_path / "prog.py").write_text(
        PRELUDE + "init()\nfor i in range(300):\n"
        "    launch('_Z6vecaddPfi', took=i + 1); launch('other'); copy(1, 10)\n"
    )
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TAU")},
        "LD_LIBRARY_PATH": str(played_gpu),
        "TAUPY_CUPTI": str(played_gpu / "libcupti.so.13"),
        "TAUPY_STATE_DIR": str(tmp_path / "state"),
        "FAKE_BUFFER": "16384",
    }
    recorder = Path(__file__).parents[2] / "gpu" / "record.py"
    subprocess.run(
        [sys.executable, str(recorder), str(saved), "prog.py"],
        cwd=tmp_path, env=environment, check=True, capture_output=True,
    )  # fmt: skip
    (tmp_path / "replayed").mkdir()
    part = replay(collector, tmp_path / "replayed", read_fixture(saved))
    expected = json.loads((saved / "expected.json").read_text())
    assert expected == {"vecadd(float*, int)": [300, 300 * 301 // 2], "other": [300, 300_000]}
    assert kernels(part) == expected


EVALUATE = """
import ctypes, sys
from dataclasses import replace
from pathlib import Path
from taupy.collectors.cupti_host import CuptiHost
values = Path(sys.argv[1])
(version, chip, index), *lines = [line.split() for line in values.read_text().splitlines()]
data = values.with_suffix(".data").read_bytes()
image = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
names = (ctypes.c_char_p * len(lines))(*[name.encode() for name, _ in lines])
found = (ctypes.c_double * len(lines))()
with CuptiHost.open().chip(chip) as metrics:
    metrics.evaluated(image, int(index), names, found)
    passes = metrics.passes([name for name, _ in lines])
assert [float(value) for _, value in lines] == list(found), list(found)
print(version, chip, len(lines), passes, values.with_suffix(".config").stat().st_size > 0)
"""


def evaluated(values: Path, environment: dict[str, str]) -> str:
    """Evaluate a kept image again; raises where another value comes out."""
    done = subprocess.run(
        [sys.executable, "-c", EVALUATE, str(values)],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_images_that_were_recorded_on_a_gpu_give_the_same_values(recorded):
    kept = sorted(recorded.glob("*/*.values"))
    assert kept
    for image in kept:
        evaluated(image, dict(os.environ))


def test_an_image_that_a_run_keeps_is_evaluated_to_the_same_values(played_gpu, tmp_path):
    (tmp_path / "prog.py").write_text(
        PRELUDE + "init()\nfor i in range(5): launch('_Z6vecaddPfi', took=7)\nlaunch('other')\n"
    )
    saved = tmp_path / "saved"
    saved.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TAU")},
        "LD_LIBRARY_PATH": str(played_gpu),
        "TAUPY_CUPTI": str(played_gpu / "libcupti.so.13"),
        "TAUPY_STATE_DIR": str(tmp_path / "state"),
    }
    subprocess.run(
        [*(sys.executable, "-m", "taupy", "run", "--metrics", "gld,gst"), "prog.py"],
        cwd=tmp_path, env=environment | {"TAUPY_GPU_SAVE": str(saved)}, check=True,
        capture_output=True,
    )  # fmt: skip
    (values,) = saved.glob("*.values")
    assert {path.suffix for path in saved.iterdir()} == {
        ".values",
        ".config",
        ".available",
        ".data",
    }
    assert values.read_text().splitlines()[1:] == [
        "smsp__inst_executed_op_global_ld.sum 7", "smsp__inst_executed_op_global_st.sum 14",
        "gpu__time_duration.sum 7000",
    ]  # fmt: skip
    assert evaluated(values, environment) == "130001 GH100 3 2 True\n"
    # It is the image that is evaluated: another one is not taken.
    values.with_suffix(".data").write_bytes(b"other")
    with pytest.raises(AssertionError, match="CUPTI_ERROR"):
        evaluated(values, environment)


# ---------------------------------------------------------- calls beside the buffers (record.py)


@pytest.fixture(scope="module")
def played_record(played_gpu, tmp_path_factory):
    """What `record.py` keeps of a training on the simulated driver, and its trial."""
    folder = tmp_path_factory.mktemp("record")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TAU")},
        "LD_LIBRARY_PATH": str(played_gpu),
        "TAUPY_CUPTI": str(played_gpu / "libcupti.so.13"),
        "TAUPY_STATE_DIR": str(folder / "state"),
        "FAKE_NAME": "NVIDIA H100 80GB HBM3",
    }
    done = subprocess.run(
        [sys.executable, str(RECORD), str(folder / "kept"), "--quiet", str(TRAINING)],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "kept"


@pytest.mark.slow
def test_a_profile_can_be_made_again_from_cuptis_bytes_and_the_calls(
    collector, played_record, tmp_path
):
    """Times of calls, kernels and copies are in the buffers; their call paths are in the text."""
    trial = stored(played_record / "recorded.db", "recorded")
    host = calls.read(played_record)
    profile = rebuilt(collector, tmp_path, read_fixture(played_record), host)
    assert check(profile) == []
    assert of_profile(profile) == of_profile(trial)
    assert sum(launches for launches, _ in of_profile(profile).kernels.values()) == 420
    assert len(host.calls) > 500
    assert sorted(calls.of_profile(profile).calls, key=str) == sorted(host.calls, key=str)


@pytest.mark.slow
def test_operators_and_owners_of_the_rebuilt_profile_are_those_of_the_trial(
    collector, played_record, tmp_path
):
    profile = rebuilt(collector, tmp_path, read_fixture(played_record), calls.read(played_record))
    with ProfileDB.open(tmp_path / "rebuilt.db", create=True, readonly=False) as db:
        again = gpu_times(db, add_profile(db, profile))
    with ProfileDB.open(played_record / "recorded.db", readonly=True) as db:
        (trial,) = (one.id for one in db.trials() if one.name == "recorded")
        assert again == gpu_times(db, trial)
    assert len({operator for operator, _ in again}) == 17  # one of them "(no operator)"
    assert sum(again.values()) == sum(
        launch.time_ns for measured in profile.threads for launch in measured.launches
    )


@pytest.mark.slow
def test_causes_of_idle_time_are_those_of_the_trial(collector, played_record, tmp_path):
    """The sleep, the batch, the allocation and the code that is loaded, from the buffers."""
    profile = rebuilt(collector, tmp_path, read_fixture(played_record), calls.read(played_record))
    gpu_idle.note(profile)
    name = f"{gpu_time.TIME}1"
    found = gpu_time.parsed(profile.node_metadata[0][name])
    trial = stored(played_record / "recorded.db", "recorded")
    kept = gpu_time.parsed(trial.node_metadata[0][name])
    assert found is not None and kept is not None
    # The text holds no steps: the path is that of all the time here, of the last step there.
    assert found.path is not None and kept.path is not None
    assert replace(found, path=None) == replace(kept, path=None)
    assert found.of("host") >= 20_000_000 and found.of("data loading") >= 30_000_000
    assert found.of("memory allocation") > 0 and found.of("loading code") > 0


def gpu_times(db, trial):
    """(operator, routine that launched) -> ns of what runs on streams."""
    question = Question((trial,), ("time",), ("operator", "parent"), (Condition("kind", ("gpu",)),))
    table = values(db, question)
    rows = zip(
        table.row_labels("operator"), table.row_labels("parent"),
        table.column("exclusive", "time"), strict=True,
    )  # fmt: skip
    return {(operator, parent): value for operator, parent, value in rows if value}


def test_a_correlation_that_is_missing_takes_the_owner_away(collector, played_record, tmp_path):
    """The text decides: a launch whose call is left out has no known place."""
    host = calls.read(played_record)
    (late, *_) = (one for one in host.calls if one.owner and one.path[-1].startswith("launch"))
    fewer = host._replace(calls=[one for one in host.calls if one != late])
    profile = rebuilt(collector, tmp_path, read_fixture(played_record), fewer)
    assert "gpu_lost" in str(profile.metadata)


def test_calls_are_read_as_they_were_written(tmp_path):
    timers = {
        "odd = > name": Timer("odd = > name", None, None, ("OPERATOR", "USER")),
        "f [{/home/u/p.py}{3}]": Timer("f", "/home/u/p.py", 3),
    }
    path = ("odd = > name", "f [{/home/u/p.py}{3}]")
    host = calls.Host(
        timers,
        [
            calls.Call("sync", 0, 2, True, 17, 5, 9, "cudaFree", path, ()),
            calls.Call("range", 1, 0, False, None, 6, 7, "forward", (), path),
        ],
    )
    calls.write(tmp_path, host)
    assert calls.read(tmp_path) == host
    cut = calls.changed(host, lambda text: text.replace("/home/u/", ""))
    assert cut.timers["f [{p.py}{3}]"] == Timer("f", "p.py", 3)
    assert cut.calls[0].path == ("odd = > name", "f [{p.py}{3}]")
    (tmp_path / calls.FILE).write_text("what is this\n")
    with pytest.raises(ValueError, match="neither a timer nor a call: what is this"):
        calls.read(tmp_path)
