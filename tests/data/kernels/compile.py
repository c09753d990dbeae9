"""Compile kernels.cu for the chips that NVRTC 13 serves, into cubins.tar.xz.

    python tests/data/kernels/compile.py      (needs nvidia-cuda-nvrtc; recorded with 13.5.37)

7.0 is not among them: CUDA 13 neither compiles for it nor lists its code.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
from pathlib import Path

from taupy.cuda import nvrtc

HERE = Path(__file__).parent
CHIPS = (75, 80, 86, 89, 90, 100, 120)


def main() -> None:
    source = (HERE / "kernels.cu").read_text()
    with tarfile.open(HERE / "cubins.tar.xz", "w:xz") as archive:
        for chip in CHIPS:
            with contextlib.chdir("/"):  # which stands in the code, before the file's name
                code = nvrtc.compile(source, chip, lines=True)
            entry = tarfile.TarInfo(f"sm_{chip}.cubin")
            entry.size = len(code)
            archive.addfile(entry, io.BytesIO(code))


if __name__ == "__main__":
    main()
