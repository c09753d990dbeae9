"""The parts of a store that need no server: addresses, the layout of tables, files."""

from __future__ import annotations

import pytest

from taupy.errors import DatabaseError, UsageError
from taupy.profiledb.address import checked, is_address
from taupy.store.files import Folder, TrialKey
from taupy.store.layout import IN_FILES, gathered, physical, spread, tables

pytest.importorskip("fsspec")
pytest.importorskip("pyarrow")

TRIAL = TrialKey("01900000-0000-7000-8000-000000000001", "mnist", "2026-11-23T03:50:12.286988Z")


def test_an_address_names_a_store_and_holds_no_password():
    for address in ("postgresql://me@host/db", "postgres:///db?host=/run/pg", "postgresql://"):
        assert is_address(address) and checked(address) == address
    for text in ("taupy.db", "", "/a/postgresql://x", "mysql://host/db"):
        assert not is_address(text)
        with pytest.raises(UsageError, match="not the address of a store"):
            checked(text)
    for secret in ("postgresql://me:secret@host/db", "postgresql://host/db?password=secret"):
        with pytest.raises(UsageError, match="pgpass") as refused:
            checked(secret)
        assert "secret" not in str(refused.value)


def test_each_table_distinguishes_its_rows():
    assert set(IN_FILES) < tables().keys()
    for table in tables().values():
        names = {column.name for column in table.columns}
        assert set(table.key) <= names | {"id"}, table.name
        assert table.in_files or table.key, table.name
        if table.of_a_trial:
            assert table.columns[0].name == "trial_id", table.name


def test_a_cell_that_may_hold_anything_keeps_its_type():
    table = tables()["device_fact"]
    assert [name for name, _ in physical(table)][-4:-1] == ["value", "value_real", "value_text"]
    for value in (3, 3.0, "3", None, -(2**63), 1e300):
        row = [1, 2, 3, "clock", value, "MHz"]
        again = gathered(table, spread(table, row))
        assert again == row and type(again[4]) is type(value)


ROWS = [(7, 2**62, 1, 10, 5), (7, 2**62 + 1, 1, 2.5, None), (8, -5, 2, None, 0.1)]


@pytest.fixture
def written(tmp_path):
    folder = Folder(str(tmp_path))
    table = tables()["interval_value"]
    stored = folder.write(table, TRIAL, iter(ROWS))
    return folder, table, stored, tmp_path / stored.name


def test_a_file_gives_back_its_rows(written):
    folder, table, stored, path = written
    assert path.parent.name == "month=2026-11" and path.parent.parent.name == "app=mnist"
    assert (stored.rows, stored.bytes) == (3, path.stat().st_size)
    assert [tuple(row) for row in folder.read(stored, table, TRIAL.uuid)] == ROWS
    assert folder.sizes() == {stored.name: stored.bytes}
    assert folder.write(table, TRIAL, iter(())) is None


def test_a_file_that_is_not_what_was_written_is_refused(written):
    folder, table, stored, path = written
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DatabaseError, match="damaged"):
        list(folder.read(stored, table, TRIAL.uuid))
    path.unlink()
    assert folder.size(stored.name) is None
    with pytest.raises(DatabaseError, match="No such file"):
        list(folder.read(stored, table, TRIAL.uuid))
    folder.remove([stored.name])


@pytest.mark.parametrize("name", ["../../etc", "a/b", "", "x" * 5000, "é" * 3000, "a\nb", "%2e"])
def test_any_application_is_one_folder(tmp_path, name):
    folder = Folder(str(tmp_path))
    other = TrialKey(TRIAL.uuid, name + "!", TRIAL.started_at)
    key = TrialKey(TRIAL.uuid, name, TRIAL.started_at)
    stored = folder.write(tables()["call"], key, iter([(1, 1, 1, 0, 1, None, 0)]))
    assert (tmp_path / stored.name).resolve().parent.parent.parent == tmp_path
    assert key.folder != other.folder


def test_a_folder_is_one_stores(tmp_path):
    folder = Folder(str(tmp_path / "new" / "folder"))
    with pytest.raises(DatabaseError, match="mounted"):
        folder.check_mark("mine")
    folder.mark("mine")
    folder.check_mark("mine")
    with pytest.raises(DatabaseError, match="another"):
        folder.check_mark("theirs")
    with pytest.raises(DatabaseError, match="another store"):
        folder.mark("theirs")


def test_what_cannot_be_written_is_reported_in_one_line(tmp_path):
    (tmp_path / "app=mnist").write_text("in the way")
    with pytest.raises(DatabaseError, match="app=mnist") as refused:
        Folder(str(tmp_path)).write(tables()["call"], TRIAL, iter([(1, 1, 1, 0, 1, None, 0)]))
    assert "\n" not in str(refused.value)
    with pytest.raises(UsageError, match="nosuch"):
        Folder("nosuch://bucket/folder")
