"""Run other projects' test suites with and without taupy; list tests that only pass without it.

    python scripts/foreign.py                        CPython's own tests: all modules
    python scripts/foreign.py test_generators ...    some of them
    python scripts/foreign.py --package attrs ...    the tests in a package's source distribution
    python scripts/foreign.py --share                a few minutes' worth, for CI

Every module runs plain, then measured. A test that passed plain and failed measured is repeated in
both ways; it is a regression if that happens again. Results are kept in --folder as each module
ends, and modules with a result are not run again; --report prints a summary. docs/fidelity.md lists
the known regressions of each Python with their causes. The exit code is 1 if there are others.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
KNOWN = ROOT / "docs" / "fidelity.md"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
SECONDS = 600  # for one run of a module
SHARE = [
    "test_generators", "test_coroutines", "test_contextlib", "test_exceptions", "test_traceback",
    "test_weakref", "test_sys_setprofile", "test_fork1", "test_atexit", "test_thread",
    "test_dynamic", "test_frame",
]  # fmt: skip
NOT_TESTED = {  # need hours, a network or a display
    "test_concurrent_futures", "test_multiprocessing_fork", "test_multiprocessing_forkserver",
    "test_multiprocessing_spawn", "test_peg_generator", "test_tools", "test_venv", "test_ensurepip",
    "test_idle", "test_tkinter", "test_ttk", "test_ttk_guionly", "test_ttk_textonly", "test_turtle",
    "test_socket", "test_ssl", "test_urllib2net", "test_bigmem", "test_regrtest", "test_gdb",
}  # fmt: skip

Outcomes = dict[str, str]
"""Test name -> passed, failed or skipped."""


class Suite(NamedTuple):
    """A suite whose tests are run by `python ARGUMENTS`, which writes JUnit XML."""

    name: str
    arguments: list[str]
    folder: Path
    xml: Path


def run(suite: Suite, measured: bool) -> Outcomes | None:
    """The outcomes of a run; None if it did not finish or wrote none."""
    suite.xml.unlink(missing_ok=True)
    taupy = ["-m", "taupy", "run", "--db", str(suite.folder / "taupy.db"), "--"]
    command = [sys.executable, *(taupy if measured else []), *suite.arguments]
    output = suite.folder / f"{suite.name}-{'taupy' if measured else 'plain'}.log"
    with open(output, "wb") as log:
        try:
            _ended(
                subprocess.Popen(
                    command,
                    cwd=suite.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
        except subprocess.TimeoutExpired:
            return None
    for database in suite.folder.glob("taupy.db*"):
        database.unlink()
    try:
        cases = ElementTree.parse(suite.xml).getroot().iter("testcase")
    except (OSError, ElementTree.ParseError):
        return None
    return {_name(case): _outcome(case) for case in cases}


def _ended(tests: subprocess.Popen[bytes]) -> None:
    """Wait for a process, then kill any processes that it left; kill it if it does not end."""
    try:
        tests.wait(SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(tests.pid, signal.SIGKILL)
        tests.wait()


def _name(case: ElementTree.Element) -> str:
    owner = case.get("classname")
    return f"{owner}.{case.get('name')}" if owner else str(case.get("name"))


def _outcome(case: ElementTree.Element) -> str:
    parts = {part.tag for part in case}
    if parts & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in parts else "passed"


def compare(suite: Suite) -> dict[str, object]:
    """Regressions of one suite, and the number of tests compared."""
    plain = run(suite, measured=False)
    if not plain:
        return {
            "tests": 0,
            "regressions": [],
            "note": "its tests do not end or write no results here",
        }
    measured = run(suite, measured=True)
    worse = _worse(plain, measured)
    if worse:
        again = _worse(run(suite, measured=False) or {}, run(suite, measured=True))
        worse = [name for name in worse if name in again]
    return {"tests": sum(o == "passed" for o in plain.values()), "regressions": worse}


def _worse(plain: Outcomes, measured: Outcomes | None) -> list[str]:
    """Tests that pass plain only; all of them if the measured run wrote nothing."""
    return sorted(
        name
        for name, outcome in plain.items()
        if outcome == "passed" and (measured or {}).get(name) != "passed"
    )


def cpython_suites(modules: list[str], folder: Path) -> list[Suite]:
    if not modules:
        listed = subprocess.run(
            [sys.executable, "-m", "test", "--list-tests"], capture_output=True, text=True
        )
        # A package's modules are listed as test.PACKAGE.MODULE.
        modules = [name for name in listed.stdout.split() if not NOT_TESTED & set(name.split("."))]
    return [
        Suite(
            name,
            ["-m", "test", "-q", "--junit-xml", str(folder / f"{name}.xml"), name],
            folder,
            folder / f"{name}.xml",
        )
        for name in modules
    ]


def package_suite(package: str, folder: Path) -> Suite:
    """The tests of a package's newest source distribution; their requirements must be installed."""
    where = folder / package
    where.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*pip, "-d", str(where), package], check=True)
    [archive] = where.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(where, filter="data")
    [source] = [path for path in where.iterdir() if path.is_dir()]
    xml = where / "results.xml"
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--junit-xml", str(xml)]
    return Suite(package, arguments, source, xml)


def known_regressions() -> set[str]:
    """The test names, or patterns of them, that docs/fidelity.md lists for this Python."""
    if not KNOWN.exists():
        return set()
    section = re.search(
        rf"^## Python {re.escape(VERSION)}$(.*?)(^## |\Z)", KNOWN.read_text(), re.M | re.S
    )
    return set(re.findall(r"`(test[\w.*\-\[\]]+)`", section[1])) if section else set()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="test modules of CPython")
    parser.add_argument("--package", action="append", default=[])
    parser.add_argument("--share", action="store_true")
    parser.add_argument(
        "--report", action="store_true", help="run nothing, print the results so far"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "foreign" / VERSION)
    arguments = parser.parse_args()
    # A shell makes background processes ignore SIGINT, and tests that send it would hang.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.json"
    done: dict[str, dict] = json.loads(results.read_text()) if results.exists() else {}
    if not arguments.report:
        suites = [package_suite(name, folder) for name in arguments.package]
        if not suites or arguments.modules:
            modules = SHARE if arguments.share else arguments.modules
            suites += cpython_suites(modules, folder)
        for suite in suites:
            if suite.name not in done:
                done[suite.name] = compare(suite)
                results.write_text(json.dumps(done, indent=1))
                print(f"{suite.name}: {done[suite.name]}", flush=True)
    return report(done)


def report(done: dict[str, dict]) -> int:
    regressions = [name for result in done.values() for name in result["regressions"]]
    patterns = known_regressions()
    unknown = sorted(
        name for name in regressions if not any(fnmatchcase(name, pattern) for pattern in patterns)
    )
    tests = sum(result["tests"] for result in done.values())
    print(f"Python {VERSION}: {len(done)} suites, {tests} tests pass under plain python; ", end="")
    print(f"{len(regressions)} of them fail under taupy, {len(unknown)} for no known reason")
    for name in unknown:
        print(f"  {name}")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
