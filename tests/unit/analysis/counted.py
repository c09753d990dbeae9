"""A trial with GPU counters, with numbers that are easy to work out. Times in ns.

Stream 0.1.0, under main => step => cudaLaunchKernel: gemm 5000 x10, of which 5 launches were
counted in 2500; relu 800 x10, all counted; copy_kernel 200 x4, not counted at all.

             warps  inst_issued  gld  flop_fp32  counted_time  counted_launches
gemm          1000       500000  400    4000000          2500                 5
relu          4000        10000    0        100           800                10

Host 0.0.0: main 100 [ step 300 x10 [ cudaLaunchKernel 60 x24 ] ], in all 460; and on both
host threads instructions and cycles: main 1000/500, step 6000/1500; worker 0.0.1 main 10/0.
"""

from array import array

from taupy.model.profile import ABSENT, CallTree, Metric, Thread, ThreadProfile, Timer
from tests.builders import profile_of

MAIN = Timer("<module>", "train.py", 1)
STEP = Timer("step", "train.py", 5)
LAUNCH = Timer("cudaLaunchKernel", groups=("CUDA_API",))
GEMM = Timer("gemm(float*)", groups=("GPU_KERNEL",), short="gemm")
RELU = Timer("relu(float*)", groups=("GPU_KERNEL",), short="relu")
COPY = Timer("copy_kernel(float*)", groups=("GPU_KERNEL",), short="copy_kernel")
ROOT = Timer(".taupy application", groups=("TAUPY",))
TIMERS = [ROOT, MAIN, STEP, LAUNCH, GEMM, RELU, COPY]

METRICS = [
    Metric("time", "ns"),
    Metric("warps_launched", "warp"),
    Metric("inst_issued", "inst"),
    Metric("gld", "inst"),
    Metric("flop_fp32", "flop"),
    Metric("counted_time", "ns"),
    Metric("counted_launches", "launch"),
    Metric("instructions", "count"),
    Metric("cycles", "count"),
]


def _tree(rows, columns):
    """rows: (timer, parent, calls); columns: metric -> exclusive values."""
    parent = array("q", [above for _, above, _ in rows])
    calls = array("q", [count for _, _, count in rows])
    subroutines = array("q", [0] * len(rows))
    for row in range(1, len(rows)):
        subroutines[parent[row]] += calls[row]
    tree = CallTree(array("q", [TIMERS.index(one) for one, _, _ in rows]), parent, calls,
                    subroutines)  # fmt: skip
    for name, values in columns.items():
        whole = [0.0 if value != value else value for value in values]
        for row in range(len(rows) - 1, 0, -1):
            whole[parent[row]] += whole[row]
        whole = [
            value if value != value and own == 0 else own
            for value, own in zip(values, whole, strict=True)
        ]
        kind = "q" if name == "time" else "d"
        tree.exclusive[name] = array(kind, values)
        tree.inclusive[name] = array(kind, whole)
    return tree


def counted_profile(number=1, **more):
    host = _tree(
        [(ROOT, -1, 1), (MAIN, 0, 1), (STEP, 1, 10), (LAUNCH, 2, 24)],
        {
            "time": [0, 100, 300, 60],
            "instructions": [0.0, 1000.0, 6000.0, 0.0],
            "cycles": [0.0, 500.0, 1500.0, 0.0],
        },
    )
    worker = _tree(
        [(ROOT, -1, 1), (MAIN, 0, 1)],
        {"time": [0, 50], "instructions": [0.0, 10.0], "cycles": [0.0, 0.0]},
    )
    none = ABSENT
    stream = _tree(
        [(ROOT, -1, 0), (MAIN, 0, 0), (STEP, 1, 0), (LAUNCH, 2, 0), (GEMM, 3, 10), (RELU, 3, 10),
         (COPY, 3, 4)],
        {
            "time": [0, 0, 0, 0, 5000, 800, 200],
            "warps_launched": [0.0] * 4 + [1000.0, 4000.0, none],
            "inst_issued": [0.0] * 4 + [500000.0, 10000.0, none],
            "gld": [0.0] * 4 + [400.0, 0.0, none],
            "flop_fp32": [0.0] * 4 + [4e6, 100.0, none],
            "counted_time": [0.0] * 4 + [2500.0, 800.0, none],
            "counted_launches": [0.0] * 4 + [5.0, 10.0, none],
        },
    )  # fmt: skip
    profile = profile_of(number=number, application="train", metrics=list(METRICS), **more)
    profile.timers = list(TIMERS)
    profile.threads = [
        ThreadProfile(Thread(0, 0, 0, name="MainThread"), host),
        ThreadProfile(Thread(0, 0, 1, name="worker"), worker),
        ThreadProfile(Thread(0, 1, 0, "stream", "stream 7", 7), stream),
    ]
    return profile
