"""Keep what CUPTI gives of a real run as fixtures that replay without a GPU.

    python tests/gpu/record.py FOLDER [options of taupy run] [SCRIPT args...]

Runs the program (by default `programs/torch_steps.py`) under `taupy run --trace=gpu,host` and
leaves in FOLDER, for each process: `PID.buffers` (each buffer after its size, 8 bytes), `PID.names`
(CUPTI's version, and the text behind each pointer); and, of the trial: `calls.tsv` (each call of
CUDA's API with its call path: see calls.py) and `expected.json` (launches and time of each kernel).
`tests/unit/collectors/test_cupti_fixtures.py` replays every such folder that TAUPY_SHARED_DATA
holds under `cupti/`; rebuilt.py beside it makes a profile of the buffers and the calls.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.gpu import calls
from tests.gpu.comparison import of_profile, stored

PROGRAM = Path(__file__).parent / "programs" / "torch_steps.py"


def record(folder: Path, command: list[str]) -> dict[str, list[int]]:
    """Run the command under taupy, its buffers kept in `folder`; kernel -> launches, ns."""
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / "recorded.db"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "taupy", "run", "--gpu", "--trace=gpu,host"),
            *("--db", str(database), "--trial", "recorded", *command),
        ],
        env={**os.environ, "TAUPY_GPU_SAVE": str(folder)},
    )
    if done.returncode != 0:
        sys.exit(f"nothing was recorded: the program ended with {done.returncode}")
    profile = stored(database, "recorded")
    calls.write(folder, calls.of_profile(profile))
    kernels = of_profile(profile).kernels
    (folder / "expected.json").write_text(json.dumps(kernels, indent=1, sort_keys=True))
    return kernels


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found = record(Path(sys.argv[1]), sys.argv[2:] or [str(PROGRAM)])
    print(f"{len(found)} kernels, {sum(n for n, _ in found.values())} launches: {sys.argv[1]}")
