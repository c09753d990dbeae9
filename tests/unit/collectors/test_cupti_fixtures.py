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
from pathlib import Path

import pytest

from taupy.collectors.cupti_errors import cupti_version
from taupy.collectors.gpu_layout import KERNEL
from taupy.model.kernel_names import demangled
from taupy.record.gpu_part import GpuPart
from tests.fake_gpu import PRELUDE
from tests.unit.collectors.test_cupti_records import Records, collector, replay

__all__ = ["collector"]


DATA = Path(__file__).parents[2] / "data" / "cupti"


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
    for values in kept:
        evaluated(values, dict(os.environ))


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
