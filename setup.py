"""The build steps that pyproject.toml cannot say.

The extension is optional: without a C compiler the install works and the engine in
plain Python is used (`taupy doctor` says so); TAUPY_REQUIRE_NATIVE=1 makes a failing
C build an error. `taupy_boot.pth` goes beside the package, so that an interpreter that
`taupy run` has started finds the measurement; see docs/decisions.
"""

import os
import platform
import shutil
import sys
import zipfile
from base64 import urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

PTH = "taupy_boot.pth"


class BuildPyWithPth(build_py):
    """Puts the .pth at the root of the wheel."""

    def run(self):
        super().run()
        if not self.editable_mode:
            Path(self.build_lib).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PTH, Path(self.build_lib, PTH))

    def get_outputs(self, include_bytecode=1):
        outputs = super().get_outputs(include_bytecode)
        return outputs if self.editable_mode else [*outputs, os.path.join(self.build_lib, PTH)]


class EditableWheelWithPth(editable_wheel):
    """Puts the .pth into the wheel of an editable install, and into its RECORD."""

    def run(self):
        super().run()
        (wheel,) = Path(self.dist_dir).glob("taupy_profiler-*.whl")
        content = Path(PTH).read_bytes()
        digest = urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
        changed = wheel.with_suffix(".tmp")
        with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(changed, "w") as new:
            for item in old.infolist():
                data = old.read(item)
                if item.filename.endswith(".dist-info/RECORD"):
                    data = f"{PTH},sha256={digest},{len(content)}\n".encode() + data
                new.writestr(item, data)
            new.writestr(PTH, content)
        changed.replace(wheel)


class BuildExtOnce(build_ext):
    """Compiles a source once, however many modules contain it, and as many at a time as cores."""

    def build_extensions(self):
        compile_all = self.compiler.compile
        begun = {}

        def compile_each(sources, *args, extra_postargs=(), **options):
            def compile_one(source):
                return compile_all([source], *args, extra_postargs=extra_postargs, **options)

            keys = [(source, *extra_postargs) for source in sources]
            for key in keys:
                if key not in begun:
                    begun[key] = pool.submit(compile_one, key[0])
            return [made for key in keys for made in begun[key].result()]

        self.compiler.compile = compile_each
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            super().build_extensions()


def native(name: str, sources: list[str], *more: str) -> Extension:
    """A module of ours in C. Without a compiler the install goes on without it."""
    folder = "taupy/_native/"
    return Extension(
        f"taupy._native.{name}",
        sources=[folder + source for source in sources],
        depends=[str(header) for header in Path(folder).glob("*.h")],
        extra_compile_args=[
            "-std=gnu11",
            "-O2",
            *([] if "-g" in os.environ.get("CFLAGS", "").split() else ["-g0"]),
            "-fno-plt",
            "-Wall",
            "-Wno-missing-field-initializers",
            *more,
        ],
        libraries=["dl", "pthread"],
        optional=os.environ.get("TAUPY_REQUIRE_NATIVE", "") in ("", "0"),
    )


ENGINE = [
    *("activity", "allocator", "api", "append", "arguments", "autograd", "awaits", "batches"),
    *("calltree",),
    *("carry", "children", "children_of", "codes", "collectives", "confined", "confined_calls"),
    *("counters", "counters_python", "engine", "evaluation"),
    *("environment", "events", "exit", "exit_row", "flat", "fork", "frames", "gpu", "greenlets"),
    *("growth", "guard", "hooks_311", "hooks_312", "imports", "interpreter", "known", "known_work"),
    *(
        "layer_facts",
        "layer_names",
        "layers",
        "library",
        "line_events",
        "line_looks",
        "line_thread",
    ),
    *("listeners", "logged"),
    *("mapped", "memory"),
    *(path.stem for path in sorted(Path("taupy/_native").glob("metric_*.c"))),
    *("metrics", "mpi", "names", "natives", "operations", "operators"),
    *("options", "origin", "own_files", "owners", "pairs", "part", "phases", "process", "pushed"),
    *("ranges", "remote", "routine", "run_delay"),
    *("selection", "setprofile", "sha256", "signals", "spans", "step_metrics", "step_rows"),
    *("steps", "steps_window", "stretches", "suspensions", "thread", "thread_rows", "timers"),
    *("timing", "wrap"),
]
EXTENSIONS = [
    # The engine's thread-local variables are few, so they need no call to be found.
    native(
        "engine",
        [f"{name}.c" for name in ENGINE],
        *("-fvisibility=hidden", "-ftls-model=initial-exec"),
    ),
    native(
        "gpu_counters",
        [
            *("gpu_counters.c", "append.c", "captures.c", "count_config.c", "count_context.c"),
            *("count_file.c", "count_image.c", "count_kernel.c", "count_region.c"),
            *("count_watch.c", "cupti_library.c"),
            *("cupti_range.c", "engine_host.c", "mapped.c"),
        ],
        "-fvisibility=hidden",
    ),
    native(
        "remote",
        ["remote_python.c", "remote.c", "line_looks.c", "activity.c", "own_files.c"],
        "-fvisibility=hidden",
    ),
    # Many spellings of a few small functions, beside whose callees -O2 would not be noticed.
    native("blas", ["blas.c"], "-fvisibility=hidden", "-O1"),
    # No module for Python: NCCL loads it as its profiler.
    native("nccl", ["nccl.c", "engine_host.c"], "-fvisibility=hidden"),
    # No module for Python: the CUDA driver loads it in a process that uses a GPU.
    native(
        "cupti",
        [
            *("cupti.c", "append.c", "captures.c", "collector.c", "cupti_buffers.c"),
            "cupti_calls.c",
            *(
                "cupti_interest.c",
                "cupti_kinds.c",
                "cupti_library.c",
                "cupti_modules.c",
                "cupti_replay.c",
                "cupti_states.c",
            ),
            *("cupti_sums.c", "cupti_worker.c", "engine_host.c", "gpu_names.c", "gpu_part.c"),
            *("gpu_trace.c", "mapped.c", "native_ranges.c", "nvtx.c", "confined.c", "part.c"),
            *("nvtx_sources.c", "sha256.c"),
        ],
        "-fvisibility=hidden",
    ),
    native(
        "cupti_python",
        [
            *("cupti_python.c", "append.c", "captures.c", "collector.c", "cupti_calls.c"),
            "cupti_interest.c",
            *("cupti_sums.c", "engine_host.c", "gpu_names.c", "gpu_part.c", "gpu_trace.c"),
            *("native_ranges.c", "confined.c", "part.c"),
        ],
        "-fvisibility=hidden",
    ),
]
if platform.machine() in ("x86_64", "aarch64"):
    EXTENSIONS.append(native("micro", ["micro.c"], "-O3"))
# `taupy run` refuses builds without the GIL.
usable = (
    sys.platform == "linux" and sys.implementation.name == "cpython" and "t" not in sys.abiflags
)

setup(
    ext_modules=EXTENSIONS if usable and not os.environ.get("TAUPY_NO_NATIVE") else [],
    cmdclass={
        "build_ext": BuildExtOnce,
        "build_py": BuildPyWithPth,
        "editable_wheel": EditableWheelWithPth,
    },
)
