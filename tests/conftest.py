"""Set-up for all tests: signals, a state folder, property tests, shares for CI.

Signals that are ignored or blocked when the tests start (`nohup`, `&` in a script, some CI systems)
are reset to their defaults, and therefore also in the programs that tests start.

The tests use a temporary state folder, never the user's own: neither runs that are under way nor
compiled libraries of the user affect them. Commands that a test calls in its own process do not
look for runs in the folders that all of the user's processes share, either.

Property tests use the same examples each time, so that a failure means a change;
HYPOTHESIS_PROFILE=explore tries new ones, with constants from taupy's own source among them, which
would otherwise depend on what has been imported, and so on the tests before.

`--share K/N` runs all tests that depend on the Python version, and every N-th of the others, or,
where what is tested is the same on every Python, of their files, which are not even imported on the
others: CI runs share 1/5 on the first of five Pythons, 2/5 on the second, and so on.
`--slow-share 1/15` runs a fifteenth of the slow tests among them; CI goes through these from commit
to commit.
"""

from __future__ import annotations

import functools
import gc
import os
import re
import shutil
import signal
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from taupy.errors import NOTICES
from taupy.instrument import runfolder
from taupy.state import places
from tests import fake_gpu
from tests.once import once

# No test asserts how long an example takes: on a busy machine, it may be any time.
_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", _ANY_SPEED, derandomize=True)
settings.register_profile("explore", _ANY_SPEED)
settings.load_profile(PROFILE := os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
if PROFILE == "repeatable":
    with suppress(ImportError):  # an older one has no such constants
        from hypothesis.internal.conjecture import providers

        providers._get_local_constants = lambda: providers.Constants()

TESTS = Path(__file__).parent
ON_EVERY_PYTHON = [
    TESTS / "engine",
    TESTS / "fidelity",
    TESTS / "integration" / "test_run.py",
    TESTS / "unit" / "instrument",
    TESTS / "unit" / "test_commands.py",
]
OTHERS_ON_EVERY_PYTHON = TESTS / "random_programs"
# Databases, formats and pages: what a file sets up for its tests would otherwise be set up on each.
DIVIDED_BY_FILE = [
    *(TESTS / "unit" / each for each in (
        "analysis", "answers", "catalog", "comparison", "formats", "model", "network", "pprof",
        "profiledb", "ranks", "report", "roofline", "store", "study",
    )),
    TESTS / "differential", TESTS / "docs", TESTS / "formats",
]  # fmt: skip
# They take long to set up, or need compilers, tools or a PostgreSQL that not each
# Python has beside it: on the first Python all tests of such a file, or none.
ON_THE_FIRST_PYTHON = [
    TESTS / "integration" / "test_two_gpus.py",
    TESTS / "store",
    TESTS / "unit" / "profiledb" / "test_views.py",
    TESTS / "unit" / "report" / "test_page.py",
    TESTS / "unit" / "static" / "test_kernels.py",
]
IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}


def restore_signals() -> None:
    """Restore signals that the parent process ignored or blocked."""
    for number in signal.valid_signals() - IGNORED_BY_PYTHON:
        if signal.getsignal(number) is signal.SIG_IGN:
            interrupts = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if interrupts else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


restore_signals()


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # a third of the time in which tests are collected, and nothing is freed
    config.taupy_state = tempfile.mkdtemp(prefix="taupy-tests-")
    os.environ["TAUPY_STATE_DIR"] = config.taupy_state


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.taupy_state, ignore_errors=True)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    for name in ("--share", "--slow-share"):
        parser.addoption(name, metavar="K/N", type=_share, help="see tests/conftest.py")


def _share(text: str) -> tuple[int, int]:
    if match := re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text):
        share, shares = int(match[1]), int(match[2])
        if share <= shares:
            return share, shares
    raise ValueError(text)


@functools.cache  # comparing paths is slow, and a file has many tests
def _lies_in(path: Path, *places: Path) -> bool:
    return any(path.is_relative_to(place) for place in places)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    share, shares = config.getoption("--share") or (1, 1)
    if shares == 1 or collection_path.suffix != ".py":
        return None
    if _lies_in(collection_path, *ON_THE_FIRST_PYTHON):
        return share != 1 or None
    if _lies_in(collection_path, *DIVIDED_BY_FILE):
        return zlib.crc32(collection_path.name.encode()) % shares != share - 1 or None
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    share, shares = config.getoption("--share") or (1, 1)
    slow_share, slow_shares = config.getoption("--slow-share") or (1, 1)
    if shares == slow_shares == 1:
        return

    def is_mine(item: pytest.Item) -> bool:
        is_slow = item.get_closest_marker("slow")
        if _lies_in(item.path, OTHERS_ON_EVERY_PYTHON):
            return True
        if _lies_in(item.path, *ON_EVERY_PYTHON) and not is_slow:
            return True
        is_whole = _lies_in(item.path, *ON_THE_FIRST_PYTHON)
        # By name, not position: a test that is missing on one Python must not shift the others.
        name = item.path.name if is_whole else item.nodeid.rpartition("/")[2]
        rest, number = divmod(zlib.crc32(name.encode()), shares)
        is_in_share = is_whole or number == share - 1 or _lies_in(item.path, *DIVIDED_BY_FILE)
        return is_in_share and (not is_slow or rest % slow_shares == slow_share - 1)

    others = [item for item in items if not is_mine(item)]
    items[:] = [item for item in items if is_mine(item)]
    config.hook.pytest_deselected(items=others)


@pytest.fixture(scope="session", autouse=True)
def runs_of_others_are_not_seen():
    """Every reading command stores the runs of killed programs that it finds, and says so."""
    real = runfolder.state_folders
    shared = {*real()} - {os.environ["TAUPY_STATE_DIR"]}

    def folders(database: str | None = None):
        return (folder for folder in real(database) if folder not in shared)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runfolder, "state_folders", folders)
        patch.setattr(places, "state_folders", folders)
        yield


@pytest.fixture(autouse=True)
def notices_end_with_their_test():
    """A command says them and forgets them; a test that calls what is below it need not."""
    yield
    NOTICES.clear()


@pytest.fixture(scope="session")
def played_gpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the simulated driver and CUPTI of tests/fake_gpu."""
    engine = pytest.importorskip("taupy._native.engine", reason="the compiled engine is not built")
    for collector in ("cupti", "gpu_counters"):
        if not Path(engine.__file__.replace("/engine.", f"/{collector}.")).exists():
            pytest.skip(f"the GPU collector ({collector}) is not built")
    if reason := fake_gpu.missing():
        pytest.skip(reason)
    return once(tmp_path_factory, "played_gpu", fake_gpu.build)
