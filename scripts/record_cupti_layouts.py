"""Write tests/fake_gpu/layouts.json from NVIDIA's headers of CUPTI.

    python scripts/record_cupti_layouts.py FOLDER

FOLDER keeps the headers, in one folder per version; missing ones are taken from wheels on PyPI.
Needs a C++ compiler, but neither a GPU nor a driver. With TAUPY_CUPTI_HEADERS=FOLDER the tests
compare the written file, and taupy's own structures, with every version in FOLDER.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.fake_gpu.headers import Headers, compiler  # noqa: E402
from tests.fake_gpu.layouts import LAYOUTS, RECORDS, measured  # noqa: E402

CRT_OF_12 = "nvidia-cuda-crt==13.0.88"
"""Its only header is also used for CUDA 12, whose own is in the large wheel of nvcc."""
WHEELS = {
    "12.6": ("nvidia-cuda-cupti-cu12==12.6.80", "nvidia-cuda-runtime-cu12==12.6.77", CRT_OF_12),
    "12.8": ("nvidia-cuda-cupti-cu12==12.8.90", "nvidia-cuda-runtime-cu12==12.8.90", CRT_OF_12),
    "12.9": ("nvidia-cuda-cupti-cu12==12.9.79", "nvidia-cuda-runtime-cu12==12.9.79", CRT_OF_12),
    "13.0": ("nvidia-cuda-cupti==13.0.85", "nvidia-cuda-runtime==13.0.96", CRT_OF_12),
    **{
        version: tuple(f"nvidia-cuda-{part}=={version}.*" for part in ("cupti", "runtime", "crt"))
        for version in ("13.1", "13.2", "13.3", "13.4", "13.5")
    },
}
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_25_x86_64")


def fetch(folder: Path, version: str) -> None:
    """Put the headers of one version into FOLDER/VERSION."""
    target = folder / version
    with tempfile.TemporaryDirectory() as wheels:
        for wheel in WHEELS[version]:
            platforms = [option for name in PLATFORMS for option in ("--platform", name)]
            subprocess.run(
                [
                    *(sys.executable, "-m", "pip", "download", "-q", "--no-deps"),
                    *("--only-binary=:all:", *platforms, "-d", wheels, wheel),
                ],
                check=True,
            )
        for wheel in Path(wheels).glob("*.whl"):
            with zipfile.ZipFile(wheel) as packed:
                for name in packed.namelist():
                    inside = re.match(r"nvidia/\w+/include/(.+\.h)\Z", name)
                    if inside:
                        path = target / inside[1]
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_bytes(packed.read(name))


def newest(folder: Path, version: str) -> dict[str, str]:
    """Each kind of record -> the structure that this version writes."""
    text = (folder / version / "cupti_activity.h").read_text()
    names = {}
    for what in RECORDS:
        numbered = re.findall(rf"}} (CUpti_Activity{what}(\d*));", text)
        names[what] = max(numbered, key=lambda match: int(match[1] or 1))[0]
    return names


def main() -> int:
    if len(sys.argv) != 2 or compiler() is None:
        print(__doc__)
        return 2
    folder = Path(sys.argv[1])
    recorded = {}
    for version in WHEELS:
        if not (folder / version / "cupti.h").exists():
            fetch(folder, version)
        headers = Headers(version, (folder / version,))
        recorded[version] = measured(headers, newest(folder, version))
        print(version, *(len(of) for of in recorded[version].values() if isinstance(of, dict)))
    lines = [f'"{name}": {json.dumps(of, sort_keys=True)}' for name, of in recorded.items()]
    LAYOUTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
