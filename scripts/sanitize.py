"""Runs tests on a copy of taupy whose C is built with sanitizers.

    python scripts/sanitize.py                     all kinds, all tests that concern C
    python scripts/sanitize.py --only thread tests/engine/test_counts.py
    python scripts/sanitize.py --share             a few minutes of it, for CI

Kinds are `address` (AddressSanitizer and UndefinedBehaviorSanitizer) and `thread`. Each has a
folder of its own, build/sanitize/KIND: what git knows or would add is copied there, so that no
object of another build takes part, and an interpreter is linked there that brings the sanitizer
along, so that every child process is under it, too, whatever its environment. Reports go to
files there, since tests catch what is printed. Ends with 1 if a test failed or a report was
written.

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
int main(int argc, char **argv) { return Py_BytesMain(argc, argv); }
"""
TESTS = [
    "tests/engine",
    "tests/integration/test_children.py",
    "tests/integration/test_counters.py",
    "tests/integration/test_gpu_counters.py",
    "tests/integration/test_operations.py",
    "tests/integration/test_run.py",
    "tests/integration/test_sampling.py",
    "tests/unit/collectors",
    "tests/unit/ert",
    "tests/unit/instrument",
    "tests/fidelity",
]
SHARE = ["tests/engine/test_counts.py", "tests/engine/test_races.py", "tests/engine/test_tables.py"]


class Kind(NamedTuple):
    flags: list[str]
    options: dict[str, str]
    """Environment variables; LOG stands for where reports go."""


KINDS = {
    "address": Kind(
        ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
        {
            # The interpreter frees little at its end. Objects in its own pools would hide errors.
            "ASAN_OPTIONS": "detect_leaks=0:log_path=LOG",
            "UBSAN_OPTIONS": "print_stacktrace=1:log_path=LOG",
            "PYTHONMALLOC": "malloc",
        },
    ),
    "thread": Kind(
        ["-fsanitize=thread"],
        {"TSAN_OPTIONS": "log_path=LOG:history_size=4:exitcode=0"},
    ),
}


def copied(folder: Path) -> None:
    """The files that git knows or would add, as they are now."""
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


def environment(folder: Path, flags: list[str]) -> Path:
    """A virtual environment in the folder, of this one's packages but taupy; its interpreter."""
    place = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(place)}))
    # A plain line adds a folder without obeying the .pth files in it: those of an editable taupy.
    (packages / "sanitized.pth").write_text(f"{folder}\n{sysconfig.get_path('purelib')}\n")
    shutil.copyfile(ROOT / "taupy_boot.pth", packages / "taupy_boot.pth")
    source = folder / "main.c"
    source.write_text(MAIN)
    python = place / "bin" / f"python{sysconfig.get_config_var('VERSION')}"
    library = sysconfig.get_config_var("LIBDIR")
    where = [f"-L{library}", f"-Wl,-rpath,{library}"]
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        where = [f"-L{sysconfig.get_config_var('LIBPL')}", "-Wl,--export-dynamic"]
    system = f"{sysconfig.get_config_var('LIBS')} {sysconfig.get_config_var('SYSLIBS')}".split()
    python.unlink(missing_ok=True)
    subprocess.run(
        [
            *os.environ.get("CC", "cc").split(),
            *flags,
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


def sanitized(name: str, tests: list[str]) -> bool:
    """Build, run the tests, show the reports. Was all well?"""
    kind, folder = KINDS[name], BUILD / name
    copied(folder)
    python = environment(folder, kind.flags)
    flags = " ".join([*kind.flags, "-g", "-O1", "-fno-omit-frame-pointer"])
    build = {**os.environ, "CFLAGS": flags, "LDFLAGS": flags, "TAUPY_REQUIRE_NATIVE": "1"}
    print(f"== {name}: {folder.relative_to(ROOT)}, Python {sys.version.split()[0]}", flush=True)
    # By the plain interpreter: under a sanitizer a compiler would be slow.
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=folder,
        env=build,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    reports = folder / "reports"
    reports.mkdir()
    options = {k: v.replace("LOG", str(reports / "report")) for k, v in kind.options.items()}
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not gpu", *tests],
        cwd=folder,
        env={**os.environ, **options, "TAUPY_SANITIZED": name},
    )
    written = sorted(reports.iterdir())
    for report in written[:20]:
        print(f"== {report.name}\n{report.read_text(errors='replace')[:6000]}")
    print(f"== {name}: {len(written)} reports in {reports}, pytest ended with {done.returncode}")
    return not written and done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Run tests with taupy's C under sanitizers.")
    parser.add_argument("--only", choices=list(KINDS), help="one kind of sanitizer")
    parser.add_argument("--share", action="store_true", help="a few minutes of it, for CI")
    parser.add_argument("tests", nargs="*", help="files, folders or options for pytest")
    arguments = parser.parse_args()
    tests = arguments.tests or (SHARE if arguments.share else TESTS)
    kinds = [arguments.only] if arguments.only else list(KINDS)
    results = [sanitized(kind, tests) for kind in kinds]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
