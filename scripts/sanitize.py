"""Run tests on a copy of taupy whose C code is built with sanitizers.

    python scripts/sanitize.py                     both kinds, each with the tests that concern it
    python scripts/sanitize.py --only thread tests/engine/test_counts.py
    python scripts/sanitize.py --share             a few minutes' worth, for CI
    python scripts/sanitize.py --resume            continue an earlier run, which takes hours

Kinds are `address` (AddressSanitizer and UndefinedBehaviorSanitizer) and `thread`. Each has its own
folder, build/sanitize/KIND. The files that git tracks or would add are copied there, so that
objects of other builds are not used. An interpreter is linked there that contains the sanitizer and
its options, so that it applies to every child process in any environment. Reports are files in that
folder, because tests capture output. Each test file is a piece: its result is kept there, and
`--resume` continues in the same copy with pieces that have no result or failed. The exit code is 1
if a test failed or a report was written.

Tests that would only run Python code under a sanitizer are left out: the plain engine, and all but
one program of each class of tests/fidelity. ThreadSanitizer runs tests with several threads.

Needs a C compiler with the sanitizers' libraries, and an interpreter that can be embedded.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "sanitize"
MAIN = """\
#include <Python.h>
const char *__asan_default_options(void) { return OPTIONS; }
/* Greenlets copy the stack of C, with what lies between its variables. */
const char *__asan_default_suppressions(void) { return "interceptor_via_lib:_greenlet\\n"; }
const char *__ubsan_default_options(void) { return OPTIONS; }
const char *__tsan_default_options(void) { return OPTIONS; }
/* A copy of a part is taken while others write to it, whole words: it is of no one moment. */
const char *__tsan_default_suppressions(void) { return "race:part_copy\\n"; }
int main(int argc, char **argv) { return Py_BytesMain(argc, argv); }
"""
THREADS = [
    "tests/engine/test_races.py",
    "tests/engine/test_threads_and_hooks.py",
    "tests/engine/test_collectives.py",
    "tests/engine/test_autograd.py",
    "tests/engine/test_steps.py",
    "tests/integration/test_counters.py",
    "tests/integration/test_gpu_counters.py",
    "tests/integration/test_memory.py",
    "tests/unit/collectors/test_cupti_live.py",
    "tests/unit/collectors/test_cupti_python.py",
    "tests/unit/ert",
]
TESTS = [
    "tests/engine",
    "tests/integration/test_children.py",
    "tests/integration/test_counters.py",
    "tests/integration/test_forks.py",
    "tests/integration/test_gpu_counters.py",
    "tests/integration/test_memory.py",
    "tests/integration/test_operations.py",
    "tests/integration/test_sampling.py",
    "tests/unit/collectors",
    "tests/unit/ert",
    "tests/unit/instrument",
    "tests/unit/watch/test_remote.py",
    "tests/fidelity",
]
FIRST_OF_EACH_CLASS = "tests/fidelity/"  # the others are marked slow
RESULTS = "results"  # of each piece, in the folder of a kind
NO_TESTS = 5  # pytest's exit code if no test was selected
SHARE = ["tests/engine/test_counts.py", "tests/engine/test_races.py", "tests/engine/test_tables.py"]


class Kind(NamedTuple):
    flags: list[str]
    options: str
    """The sanitizer's options, besides the folder of its reports."""
    environment: dict[str, str]
    tests: list[str]


KINDS = {
    "address": Kind(
        ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
        # The interpreter frees little at its end. Tests preload libraries before the sanitizer's,
        # which is harmless if they do not replace its allocator.
        "detect_leaks=0:print_stacktrace=1:verify_asan_link_order=0",
        {"PYTHONMALLOC": "malloc"},  # Python's own pools would hide errors
        TESTS,
    ),
    "thread": Kind(["-fsanitize=thread"], "history_size=4:exitcode=0", {}, THREADS),
}


def copied(folder: Path) -> None:
    """The files that git tracks or would add, with their present contents."""
    shutil.rmtree(folder, ignore_errors=True)
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def environment(folder: Path, kind: Kind) -> Path:
    """Create a virtual environment with this one's packages but taupy; returns its interpreter."""
    options = f"{kind.options}:log_path={folder / 'reports' / 'report'}"
    place = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(place)}))
    # A plain line adds a folder without reading its .pth files, such as an editable taupy's.
    (packages / "sanitized.pth").write_text(f"{folder}\n{sysconfig.get_path('purelib')}\n")
    shutil.copyfile(ROOT / "taupy_boot.pth", packages / "taupy_boot.pth")
    source = folder / "main.c"
    source.write_text(MAIN)
    python = place / "bin" / f"python{sysconfig.get_config_var('VERSION')}"
    library = sysconfig.get_config_var("LIBDIR")
    where = [f"-L{library}", f"-Wl,-rpath,{library}"]
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        where = [f"-L{sysconfig.get_config_var('LIBPL')}"]
    system = f"{sysconfig.get_config_var('LIBS')} {sysconfig.get_config_var('SYSLIBS')}".split()
    python.unlink(missing_ok=True)
    subprocess.run(
        [
            *os.environ.get("CC", "cc").split(),
            *(*kind.flags, f'-DOPTIONS="{options}"', "-Wl,--export-dynamic"),
            *(f"-I{sysconfig.get_path('include')}", str(source), "-o", str(python)),
            *(*where, f"-lpython{sysconfig.get_config_var('LDVERSION')}", *system, "-lm"),
        ],
        check=True,
    )
    for name in ("python", "python3"):
        link = place / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(python.name)
    return python


def built(folder: Path, kind: Kind) -> None:
    """Build a copy of taupy with the sanitizer; returns an interpreter for it."""
    copied(folder)
    environment(folder, kind)
    (folder / "reports").mkdir()
    flags = " ".join([*kind.flags, "-g", "-O1", "-fno-omit-frame-pointer"])
    # Run by the plain interpreter: a compiler would be slow under a sanitizer.
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=folder,
        env={**os.environ, "CFLAGS": flags, "LDFLAGS": flags, "TAUPY_REQUIRE_NATIVE": "1"},
        check=True,
        stdout=subprocess.DEVNULL,
    )


def pieces(folder: Path, tests: list[str]) -> list[str]:
    """The files of these tests; a single test is its own piece."""
    return [
        str(file.relative_to(folder)) if (folder / test).is_dir() else test
        for test in tests
        for file in (sorted((folder / test).rglob("test_*.py")) or [folder])
    ]


def passes(name: str, folder: Path, piece: str) -> bool:
    """Run a piece, and keep its result."""
    marked = "not gpu and not slow" if piece.startswith(FIRST_OF_EACH_CLASS) else "not gpu"
    began = _cpu_s()
    done = subprocess.run(
        [str(folder / ".venv/bin/python"), "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "-n", "2", "-m", marked, piece],
        cwd=folder,
        env={**os.environ, **KINDS[name].environment, "TAUPY_SANITIZED": name},
    )  # fmt: skip
    passed = done.returncode in (0, NO_TESTS)
    with (folder / RESULTS).open("a") as results:
        results.write(f"{'passed' if passed else 'failed'} {piece}\n")
    print(f"== {piece}: {_cpu_s() - began:.0f} s of CPU time", flush=True)
    return passed


def _cpu_s() -> float:
    """CPU seconds of all ended children."""
    times = os.times()
    return times.children_user + times.children_system


def sanitized(name: str, tests: list[str], resume: bool) -> bool:
    """Build, run the tests and show the reports. Returns whether all passed."""
    folder = BUILD / name
    if not (resume and (folder / "reports").exists()):
        built(folder, KINDS[name])
    print(f"== {name}: {folder.relative_to(ROOT)}, Python {sys.version.split()[0]}", flush=True)
    kept = (folder / RESULTS).read_text().splitlines() if (folder / RESULTS).exists() else []
    left = [piece for piece in pieces(folder, tests) if f"passed {piece}" not in kept]
    failed = [piece for piece in left if not passes(name, folder, piece)]
    written = sorted((folder / "reports").iterdir())
    for report in written[:20]:
        print(f"== {report.name}\n{report.read_text(errors='replace')[:6000]}")
    print(f"== {name}: {len(written)} reports, failed: {' '.join(failed) or 'none'}")
    return not written and not failed


def main() -> int:
    parser = argparse.ArgumentParser(description="Run tests with taupy's C under sanitizers.")
    parser.add_argument("--only", choices=list(KINDS), help="one kind of sanitizer")
    parser.add_argument("--share", action="store_true", help="a few minutes' worth, for CI")
    parser.add_argument("--resume", action="store_true", help="only what has not passed yet")
    parser.add_argument("tests", nargs="*", help="files or folders")
    arguments = parser.parse_args()
    chosen = arguments.tests or (SHARE if arguments.share else None)
    kinds = [arguments.only] if arguments.only else list(KINDS)
    results = [sanitized(kind, chosen or KINDS[kind].tests, arguments.resume) for kind in kinds]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
