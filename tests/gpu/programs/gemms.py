"""Products and sums whose operations are known beforehand, each in a routine of its own.

python tests/gpu/programs/gemms.py            runs them
python tests/gpu/programs/gemms.py --expected prints what a profile must say, without a GPU
"""

import json
import sys

N = 4096
ELEMENTS = 1 << 26
PASSES, PASS_BYTES = 10, 8 << 20

PRODUCT_FLOP = 2 * N**3  # 137,438,953,472: exactly, whichever tiles the library takes
EXPECTED = {
    "product_fp16": {"flop_tensor_fp16": PRODUCT_FLOP},
    "product_bf16": {"flop_tensor_bf16": PRODUCT_FLOP},
    "product_tf32": {"flop_tensor_tf32": PRODUCT_FLOP},
    "product_fp8": {"flop_tensor_fp8": PRODUCT_FLOP},
    "product_fp64": {"flop_tensor_fp64": PRODUCT_FLOP},
    "axpy": {"flop_fp32": 2 * ELEMENTS},  # 134,217,728
    "passes": {
        "counted_launches": PASSES,
        "flop_fp32": PASSES * PASS_BYTES // 4,  # one product an element: 20,971,520
        "bytes_l1": 2 * PASSES * PASS_BYTES,  # each is read and written: 167,772,160
    },
    "copy_in": {"Memcpy HtoD": 4 * ELEMENTS},  # 268,435,456 bytes
    "copy_out": {"Memcpy DtoH": 4 * ELEMENTS},
}
"""Routine -> counter, or copies of a direction -> exact value. Where a library does a product in
another way (fp64 without tensor cores, say) the counter is of another name, and the value the
same."""


def product_fp16(torch, a, b):
    return torch.mm(a.half(), b.half())


def product_bf16(torch, a, b):
    return torch.mm(a.bfloat16(), b.bfloat16())


def product_tf32(torch, a, b):
    torch.backends.cuda.matmul.allow_tf32 = True
    return torch.mm(a, b)


def product_fp8(torch, a, b):
    one = torch.tensor(1.0, device="cuda")
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
    return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def product_fp64(torch, a, b):
    return torch.mm(a.double(), b.double())


def axpy(torch, x, y):
    return y.add_(x, alpha=2.0)


def passes(torch, small):
    """Eight MiB lie in the L2 cache: from the second pass on little is read from memory."""
    for _ in range(PASSES):
        small.mul_(1.5)  # an addition might be made as a fused one, of two operations


def copy_in(torch, host):
    return host.cuda()


def copy_out(torch, device):
    return device.cpu()


def main():
    import needs

    torch = needs.torch()
    try:
        from taupy import region
    except ImportError:  # under ncu, say
        from contextlib import nullcontext as region

    a, b = (torch.randn(N, N, device="cuda") for _ in "ab")
    for product in (product_fp16, product_bf16, product_tf32, product_fp8, product_fp64):
        try:
            product(torch, a, b)
        except (
            Exception
        ) as problem:  # fp8 needs sm_89 or later: the others are counted all the same
            print(f"{product.__name__}: {problem}", file=sys.stderr)
    x = copy_in(torch, torch.ones(ELEMENTS))
    y = torch.zeros(ELEMENTS, device="cuda")
    with region("axpy region"):  # for --counters-at regions
        axpy(torch, x, y)
    assert copy_out(torch, y)[0] == 2
    passes(torch, torch.zeros(PASS_BYTES // 4, device="cuda"))
    torch.cuda.synchronize()


if __name__ == "__main__":
    if sys.argv[1:] == ["--expected"]:
        print(json.dumps(EXPECTED, indent=1))
    else:
        main()
