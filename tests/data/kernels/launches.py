"""Record launches.tar.xz: a cubin and a folder of Triton's cache that settle their launches.

python tests/data/kernels/launches.py     (needs nvidia-cuda-nvrtc and triton; no GPU;
                                           recorded with NVRTC 13.5.37 and Triton 3.9.0)
"""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from pathlib import Path

from taupy.cuda import nvrtc

SOURCE = """
typedef float (*Function)(float);
__device__ __noinline__ float twice(float x) { return 2 * x; }
__device__ __noinline__ float root(float x) { return sqrtf(x); }
__device__ Function functions[2] = {twice, root};
extern "C" __global__ void __launch_bounds__(192) bounded(float *x) { x[threadIdx.x] *= 2; }
extern "C" __global__ void free_to_choose(float *x) { x[threadIdx.x] *= 2; }
extern "C" __global__ void by_pointer(float *x, int i) { x[threadIdx.x] = functions[i](*x); }
"""


def cache(folder: Path) -> None:
    """Let Triton compile a sum of rows by blocks of 4 warps, which exchange by shared memory."""
    os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
    import triton
    from triton.backends.compiler import GPUTarget

    source = triton.compiler.ASTSource(
        row_sum, {"x": "*fp32", "y": "*fp32", "B": "constexpr"}, constexprs={"B": 1024}
    )
    triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "launches.cubin").write_bytes(nvrtc.compile(SOURCE, 80))
        cache(folder)
        with tarfile.open(Path(__file__).with_name("launches.tar.xz"), "w:xz") as archive:
            for file in [*sorted(folder.rglob("row_sum.*")), folder / "launches.cubin"]:
                if file.suffix == ".json":  # without the paths of this machine
                    file.write_text(json.dumps({**json.loads(file.read_text()), "extern_libs": []}))
                if file.suffix in (".cubin", ".json"):
                    archive.add(file, file.relative_to(folder))


try:
    import triton
    import triton.language as tl
except ImportError:  # only recording needs it
    pass
else:

    @triton.jit
    def row_sum(x, y, B: tl.constexpr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0)
        tl.store(y + row, tl.sum(tl.load(x + row * B + tl.arange(0, B))))


if __name__ == "__main__":
    main()
