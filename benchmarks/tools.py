"""The compared tools, and workers that run workloads under them.

A worker is a fresh process that runs entirely under one tool. It reads names of workloads from
standard input and answers each with the CPU seconds that the workload took:

    python tools.py TOOL          native, cProfile, viztracer and the floors
    taupy run tools.py native     taupy, started as users start it

All workers of a session exist at the same time and work in turns, so that other load on the machine
affects them equally.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import platform
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
OWN_HOOK = "evaluation" if sys.version_info < (3, 12) else "monitoring"


class Tool(NamedTuple):
    name: str
    title: str
    taupy_options: tuple[str, ...] | None = None
    """Options of `taupy run`; None for other tools."""
    floor: tuple[str, int, bool] | None = None
    """Hook, step (see floor.c), and whether C calls are included."""
    checkout: Path | None = None
    """The folder that taupy is imported from; None for the installed taupy."""

    @property
    def is_step(self) -> bool:
        """Whether it is one of the steps that break down the cost of a call."""
        return self.floor is not None and self.floor[1] > 1


TOOLS = (
    Tool("native", "native"),
    Tool("taupy", "taupy", taupy_options=()),
    Tool("taupy-c-calls", "taupy --c-calls", taupy_options=("--c-calls",)),
    Tool("cprofile", "cProfile"),
    Tool("viztracer", "viztracer"),
    Tool("viztracer-minimal", "viztracer, no C calls"),
    Tool("profile", "SetProfile, no-op", floor=("profile", 0, False)),
    Tool("hook", "own hook, no-op", floor=(OWN_HOOK, 0, False)),
    Tool("hook-clock", "own hook, clock", floor=(OWN_HOOK, 1, False)),
    Tool("hook-path", "own hook, call paths", floor=(OWN_HOOK, 2, False)),
    Tool("hook-count", "the same, counted", floor=(OWN_HOOK, 3, False)),
    Tool("hook-time", "the same, timed", floor=(OWN_HOOK, 4, False)),
    Tool(
        "hook-c-calls",
        "own hook, C calls, clock",
        floor=("profile" if OWN_HOOK == "evaluation" else OWN_HOOK, 1, True),
    ),
)


def by_name(name: str) -> Tool:
    return next(tool for tool in TOOLS if tool.name == name)


def some_of(names: Collection[str]) -> Callable[[str], list[str]]:
    """The type of an argument: some of these names, separated by commas."""

    def some(text: str) -> list[str]:
        for name in (chosen := text.split(",")):
            if name not in names:
                raise argparse.ArgumentTypeError(f"no {name!r} among {', '.join(names)}")
        return chosen

    return some


def available(names: Sequence[str] | None = None) -> list[Tool]:
    """These tools, by default all but steps; without viztracer if it is not installed."""
    chosen = [by_name(name) for name in names or [tool.name for tool in TOOLS if not tool.is_step]]
    if importlib.util.find_spec("viztracer") is None:
        chosen = [tool for tool in chosen if not tool.name.startswith("viztracer")]
    return chosen


def of_checkout(name: str, checkout: Path) -> Tool:
    """taupy as in this folder, where it was built in place for this Python."""
    checkout = checkout.resolve()
    tool = Tool(name, f"taupy of {checkout.name}", taupy_options=(), checkout=checkout)
    code = "import taupy._native.engine as engine; print(engine.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tempfile.gettempdir(),
        env=environment(checkout, tool),
        capture_output=True,
        text=True,
    )
    if not done.stdout.startswith(str(checkout)):
        raise SystemExit(f"no engine for this Python in {checkout}: build it there with "
                         f"{sys.executable} setup.py build_ext --inplace")  # fmt: skip
    return tool


def print_ratios(
    taken: Mapping[str, Sequence[float]], what: str, rounds: int, load: float, digits: int = 2
) -> None:
    """A table of what runs took in rounds in turns: the median [s], and the median ratio to
    `native` in the same round."""
    print(f"{machine()}; {rounds} rounds, load {load:.1f}\n")
    print(f"| run | {what}, s | over native |")
    print("| --- | ---: | ---: |")
    for title, times in taken.items():
        ratios = [mine / plain for mine, plain in zip(times, taken["native"], strict=True)]
        took = f"{statistics.median(times):.{digits}f}"
        print(f"| {title} | {took} | {statistics.median(ratios):.2f} |")


def machine() -> str:
    """The interpreter, the machine and its load, in one line."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    load = os.getloadavg()[0]
    return (
        f"CPython {platform.python_version()}, {model}, {os.cpu_count()} CPUs, "
        f"Linux {platform.release()}, load {load:.1f}"
    )


# ------------------------------------------------------------------ the driver's side


def build_floor(folder: Path) -> None:
    """Compile floor.c into `folder` with the system's compiler."""
    compiler = os.environ.get("CC", "cc").split()
    include = sysconfig.get_path("include")
    subprocess.run(
        [
            *compiler,
            *("-O3", "-fPIC", "-shared", f"-I{include}"),
            str(HERE / "floor.c"),
            *("-o", str(folder / "floor.so")),
        ],
        check=True,
    )


def set_up_torch(environment: Mapping[str, str]) -> None:
    """Build the libraries for PyTorch, which no run does."""
    command = [sys.executable, "-m", "taupy", "setup", "torch"]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def environment(folder: Path, tool: Tool | None = None) -> dict[str, str]:
    """Environment variables: one thread in numerical libraries, a fixed hash seed, all files in
    `folder`."""
    checkout = {"PYTHONPATH": str(tool.checkout)} if tool and tool.checkout else {}
    return {
        **os.environ,
        **checkout,
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TAUPY_STATE_DIR": str(folder / "state"),
        "FLOOR_FOLDER": str(folder),
    }


def taupy_run(folder: Path, *options: str) -> list[str]:
    """The command line of `taupy run`, into a database in `folder`."""
    database = str(folder / "taupy.db")
    return [sys.executable, "-m", "taupy", "run", "--quiet", "--db", database, *options]


class Worker:
    """A process under one tool."""

    def __init__(self, tool: Tool, folder: Path) -> None:
        self.tool, self.folder = tool, folder
        if tool.taupy_options is None:
            command = [sys.executable, str(HERE / "tools.py"), tool.name]
        else:
            command = taupy_run(folder, *tool.taupy_options)
            command += [str(HERE / "tools.py"), "native"]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(folder, tool),
            cwd=folder,
        )

    def seconds(self, workload: str) -> float:
        """The CPU seconds of one run."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(workload + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the worker under {self.tool.title} died in {workload!r}")
        return float(answer)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Session:
    """One worker for each tool, for as long as the `with` lasts."""

    def __init__(self, tools: list[Tool]) -> None:
        self.tools = tools

    def __enter__(self) -> Session:
        self._folder = tempfile.TemporaryDirectory(prefix="taupy-benchmark-")
        folder = Path(self._folder.name)
        if any(tool.floor for tool in self.tools):
            build_floor(folder)
        self.workers = [Worker(tool, folder) for tool in self.tools]
        return self

    def rounds(self, workload: str, count: int) -> list[dict[str, float]]:
        """{tool: CPU seconds} of `count` rounds, after one that warms up."""
        for worker in self.workers:
            worker.seconds(workload)
        results = []
        for at in range(count):
            # Each round begins with another worker.
            turn = self.workers[at % len(self.workers) :] + self.workers[: at % len(self.workers)]
            results.append({worker.tool.name: worker.seconds(workload) for worker in turn})
        return results

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.end()
        self._folder.cleanup()


# ------------------------------------------------------------------ the worker's side


def start(tool: Tool) -> object:
    """Switch the tool on until the process ends. The caller must keep the returned object."""
    if tool.floor is not None:
        sys.path.append(os.environ["FLOOR_FOLDER"])
        import floor  # type: ignore[import-not-found]

        floor.start(*tool.floor)
        return floor
    if tool.name == "cprofile":
        import cProfile

        profile = cProfile.Profile()
        profile.enable()
        return profile
    if tool.name.startswith("viztracer"):
        from viztracer import VizTracer

        if tool.name == "viztracer-minimal":
            tracer = VizTracer(
                verbose=0, ignore_c_function=True, file_info=False, register_global=False
            )
        else:
            tracer = VizTracer(verbose=0)
        tracer.start()
        return tracer
    return None


def work(tool: Tool) -> None:
    import workloads

    prepared: dict[str, workloads.Run] = {}
    kept = start(tool)
    for line in sys.stdin:
        name = line.strip()
        if name not in prepared:
            prepared[name] = workloads.by_name(name).prepare()
        run = prepared[name]
        gc.collect()
        before = time.process_time()
        run()
        took = time.process_time() - before
        print(took, flush=True)
    if tool.floor is not None:
        kept.stop()  # type: ignore[attr-defined]
    os._exit(0)  # viztracer and others would write a report now


if __name__ == "__main__":
    work(by_name(sys.argv[1]))
