"""Launch a kernel of kernels.cu with a fault in its code, or its twin: `code.py CUBIN NAME ...`."""

import sys

import cupy
import twins

cubin, name = sys.argv.pop(1), sys.argv.pop(1)
module = cupy.RawModule(path=cubin)
ROWS = 1 << 20
LAUNCHES = {
    "columns": 3000, "fields": 10_000, "turned": 1500, "doubles": 800, "unrolled": 90,
    "bounded": 300,
}  # fmt: skip
x = cupy.ones(ROWS * (128 if name == "columns" else 16), dtype=cupy.float32)
if name == "doubles":
    x = x.view(cupy.float64)
y = cupy.zeros_like(x)


def launch(kernel, launches):
    """As many blocks as there are rows; each kernel's own arguments."""
    function = module.get_function(kernel)
    if name == "columns":
        grid, block, arguments = ROWS // 256, (256,), (x, y, ROWS)
    elif name == "fields":
        grid, block, arguments = ROWS // 256, (256,), (y, cupy.float32(2), ROWS)
    elif name in {"turned", "doubles"}:
        grid, block, arguments = 4096, (32, 32), (x, y, 8)
    else:
        threads = 1024 if kernel == "unrolled" else 256
        grid, block, arguments = 1 << 18 >> threads.bit_length() - 1, (threads,), (x, y, 256)
    for _ in range(launches):
        function((grid,), block, tuple(
            cupy.int32(one) if isinstance(one, int) else one for one in arguments
        ))  # fmt: skip
    return kernel


twins.run(
    LAUNCHES[name],
    lambda launches: launch(name, launches),
    lambda launches: launch(f"{name}_mended", launches),
    cupy.cuda.Device().synchronize,
)
