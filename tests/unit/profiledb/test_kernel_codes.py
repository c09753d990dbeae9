"""Machine code of kernels in the database: as it was read, all or nothing."""

from __future__ import annotations

import pytest

from taupy.errors import FormatError
from taupy.model.kernel_code import LaunchLimits, Line, Loop
from taupy.profiledb import kernel_codes
from taupy.profiledb.database import ProfileDB
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
