"""Machine code of kernels in the database: as it was read, all or nothing."""

from __future__ import annotations

import pytest

from taupy.answers import kernel
from taupy.comparison import kernel_beside
from taupy.errors import FormatError
from taupy.model.gpu import Module
from taupy.model.kernel_code import LaunchLimits, Line, Loop
from taupy.profiledb import kernel_codes
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import add_profile
from tests.builders import gpu_profile
from tests.in_process import taupy
from tests.kernel_codes import access, code, count, spill
from tests.unit.static.test_reading import KERNELS, NEEDED

RICH = code(
    "_Z4gemmIfEvPT_",
    chip="9.0",
    constants=((0, 560), (3, 256)),
    calls=("a", "?"),
    divergent=None,
    peak_live=None,
    indirect=True,
    counts=(count("fp32", 8, 2), count("tensor", 4, 1, "HMMA.16816.F32")),
    accesses=(access(), access(pattern="strided", stride=8), spill(3, 1)),
    loops=(Loop(64, 1, 30, 2, "a.cu:3"), Loop(128, 2, 10, 0)),
    lines=(Line("a.cu:3", 1, 20, 4, 0), Line("b.cuh:40", 2, 10, 0, 1)),
    launch=LaunchLimits(None, 256, 4096),
    is_kernel=False,
)


def everything(full_name, chip):
    return True


@pytest.fixture
def db(tmp_path):
    with ProfileDB.open(tmp_path / "t.db", create=True) as found:
        yield found


def test_a_record_survives_the_database_unchanged(db):
    plain = code()
    assert list(kernel_codes.storing(db, [RICH, plain])) == [RICH, plain]
    assert kernel_codes.stored(db, everything) == [plain, RICH]  # by name
    assert kernel_codes.stored(db, lambda full, chip: "gemm<float>" in full) == [RICH]


def test_storing_a_module_again_replaces_it(db):
    list(kernel_codes.storing(db, [RICH]))
    changed = code(RICH.name, chip="9.0", registers=40)
    list(kernel_codes.storing(db, [changed]))
    assert kernel_codes.stored(db, everything) == [changed]


def test_what_breaks_off_leaves_nothing_half_stored(db):
    def broken():
        yield RICH
        raise FormatError("x.cubin is damaged")

    with pytest.raises(FormatError):
        list(kernel_codes.storing(db, broken()))
    assert kernel_codes.stored(db, everything) == []
    passing = kernel_codes.storing(db, [RICH, code()])
    next(passing)
    passing.close()
    assert kernel_codes.stored(db, everything) == []


def test_merged_databases_have_the_codes_of_both(tmp_path):
    for name, record in (("a.db", RICH), ("b.db", code())):
        with ProfileDB.open(tmp_path / name, create=True) as db:
            list(kernel_codes.storing(db, [record]))
    for _ in range(2):  # merging is idempotent
        merged = taupy("merge", tmp_path / "b.db", "--into", tmp_path / "a.db")
        assert merged.returncode == 0, merged.stderr
    with ProfileDB.open(tmp_path / "a.db") as db:
        assert kernel_codes.stored(db, everything) == [code(), RICH]


@pytest.mark.slow
@NEEDED
def test_the_command_stores_what_it_shows(tmp_path):
    shown = taupy("static", KERNELS / "saxpy.fatbin", "--store", "--db", tmp_path / "t.db")
    assert shown.returncode == 0, shown.stderr
    with ProfileDB.open(tmp_path / "t.db") as db:
        assert [one.chip for one in kernel_codes.stored(db, everything)] == ["8.0", "9.0"]
    # The second file cannot be read: the first is not kept either.
    (tmp_path / "x.txt").write_text("no code")
    failed = taupy("static", KERNELS / "saxpy.fatbin", tmp_path / "x.txt", "--store",
                   "--db", tmp_path / "other.db")  # fmt: skip
    assert failed.returncode == 1
    with ProfileDB.open(tmp_path / "other.db") as db:
        assert kernel_codes.stored(db, everything) == []


# --- joined with trials ---------------------------------------------------------------------------

GEMM = "_Z4gemmIfLi128EEvPfi"  # of `gpu_profile`, on chip 9.0
FIRST, SECOND = "1" * 64, "2" * 64


def listing(*modules):
    """The trial of a program that loaded these."""
    profile = gpu_profile()
    profile.modules = [*modules]
    return profile


def loaded(sha256, **more):
    return Module(**{"node": 0, "sha256": sha256, "bytes": 4000, "loads": 1, "loaded_ns": 5} | more)


def joined(db, *modules):
    """The registers of the code that is shown beside gemm, and what is said of the join."""
    codes = [code(GEMM, "9.0", module=FIRST, registers=40),
             code(GEMM, "9.0", module=SECOND, registers=64)]  # fmt: skip
    list(kernel_codes.storing(db, codes))
    trial = add_profile(db, listing(*modules))
    timer = "void gemm<float, 128>(float*, int)"
    codes, doubt = kernel_beside.codes_of(db, trial, timer)
    _, *views = kernel.views(db, trial, kernel.Options(timer))
    assert len(views) == len(codes)
    assert all((doubt in view.notes) == bool(doubt) for view in views)
    return [found.registers for found in codes], doubt


def test_of_several_modules_with_a_kernel_the_one_that_ran_is_shown(db):
    assert joined(db, loaded(SECOND), loaded("3" * 64)) == ([64], "")


def test_a_program_that_loaded_both_ran_both(db):
    assert joined(db, loaded(SECOND), loaded(FIRST)) == ([40, 64], "")


@pytest.mark.parametrize(
    ("modules", "why"),
    [
        ((), "since trial 1 lists no modules: other code may have run"),
        ((loaded(None),), "since trial 1 lists no modules"),
        ((loaded("3" * 64),), "since trial 1 lists none of these modules"),
    ],
)
def test_without_a_module_of_the_trial_name_and_chip_join_and_it_is_reported(db, modules, why):
    registers, doubt = joined(db, *modules)
    assert registers == [40, 64]
    assert why in doubt


def test_modules_survive_database_file_and_merge_unchanged(db, tmp_path):
    modules = [
        loaded(FIRST, kept=True),
        loaded(None, bytes=1 << 40, loads=3, loaded_ns=7),
        loaded(None, bytes=5000, loaded_ns=8),
        loaded(FIRST, node=1, loaded_ns=9),
    ]
    profile = listing(*modules)
    trial = add_profile(db, profile)
    stored = read_profile(db, trial)
    assert stored.modules == modules[:3]  # node 1 is none of the profile's
    with ProfileDB.open(tmp_path / "all.db", create=True) as other:
        add_profile(other, gpu_profile(2))
    merged = taupy("merge", tmp_path / "t.db", "--into", tmp_path / "all.db")
    assert merged.returncode == 0, merged.stderr
    with ProfileDB.open(tmp_path / "all.db") as other:
        assert [read_profile(other, number).modules for number in (1, 2)] == [[], modules[:3]]
        assert other.verify() == []
