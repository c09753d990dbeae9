"""Keep what CUPTI gives of a real run as fixtures that replay without a GPU.

    python tests/gpu/record.py FOLDER [SCRIPT args...]

Runs the program (by default `programs/torch_steps.py`) under `taupy run` and leaves in FOLDER, for
each process: `PID.buffers` (each buffer after its size, 8 bytes), `PID.names` (CUPTI's version,
and the text behind each pointer), and `expected.json` (launches and time of each kernel, as the
trial has them). `tests/unit/collectors/test_cupti_fixtures.py` replays every such folder
that TAUPY_SHARED_DATA holds under `cupti/`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile

PROGRAM = Path(__file__).parent / "programs" / "torch_steps.py"


def record(folder: Path, command: list[str]) -> dict[str, list[int]]:
    """Run the command under taupy, its buffers kept in `folder`; kernel -> launches, ns."""
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / "recorded.db"
    subprocess.run(
        [sys.executable, "-m", "taupy", "run", "--gpu", "--db", str(database), *command],
        env={**os.environ, "TAUPY_GPU_SAVE": str(folder)},
        check=True,
    )
    with ProfileDB.open(str(database), create=False, readonly=True) as db:
        profile = read_profile(db, max(trial.id for trial in db.trials()))
    kernels: dict[str, list[int]] = {}
    for measured in profile.threads:
        for launch in measured.launches:
            timer = profile.timers[measured.tree.timer[launch.row]]
            if "GPU_KERNEL" in timer.groups:
                sums = kernels.setdefault(timer.name, [0, 0])
                sums[0] += launch.count
                sums[1] += launch.time_ns
    (folder / "expected.json").write_text(json.dumps(kernels, indent=1, sort_keys=True))
    return kernels


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found = record(Path(sys.argv[1]), sys.argv[2:] or [str(PROGRAM)])
    print(f"{len(found)} kernels, {sum(n for n, _ in found.values())} launches: {sys.argv[1]}")
