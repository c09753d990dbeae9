"""Buffers as CUPTI handed them over, kept by `tests/gpu/record.py`, replayed without a GPU."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from taupy.collectors.cupti_errors import cupti_version
from taupy.collectors.gpu_layout import KERNEL
from taupy.model.kernel_names import demangled
from taupy.record.gpu_part import GpuPart
from tests.fake_gpu import PRELUDE
from tests.unit.collectors.test_cupti_records import Records, collector, replay

__all__ = ["collector"]


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


def recorded_folders() -> list[Path]:
    shared = os.environ.get("TAUPY_SHARED_DATA")
    return (
        sorted(path.parent for path in Path(shared, "cupti").glob("*/expected.json"))
        if shared
        else []
    )


def test_buffers_that_were_recorded_on_a_gpu_give_the_same_kernels(collector, tmp_path):
    folders = recorded_folders()
    if not folders:
        pytest.skip("no buffers recorded on a GPU ($TAUPY_SHARED_DATA/cupti/*/expected.json)")
    for number, folder in enumerate(folders):
        (tmp_path / str(number)).mkdir()
        part = replay(collector, tmp_path / str(number), read_fixture(folder))
        assert kernels(part) == json.loads((folder / "expected.json").read_text())


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
