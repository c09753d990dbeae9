"""taupy import and export with the formats of the GPU world, as people use them."""

from __future__ import annotations

import gzip
import json

import pytest

from taupy.commands import main
from taupy.formats import registry
from taupy.model.answer import flat_rows
from taupy.profiledb import gpu_query, metrics
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import add_profile
from tests import builders
from tests.unit.formats import chrome_files, ncu_files, nsys_files
from tests.unit.formats.test_pprof_proto import message


def nsys(folder):
    return nsys_files.training(folder / "x.sqlite", 200)


def chrome(folder):
    return chrome_files.written(folder / "x.json.gz", chrome_files.steps(5))


def ncu_csv(folder):
    metrics = [("gpu__time_duration.sum", "us", "1"), ("dram__bytes.sum", "byte", "5")]
    talk = ["==PROF== Connected"] + ["a talkative program"] * 20_000
    return ncu_files.long_csv(folder / "x.txt", ncu_files.long_rows(metrics), before=talk)


def ncu_rep(folder):
    launches = [("f(int)", (8, 1, 1), (32, 1, 1), {"gpu__time_duration.sum": 1000})]
    return ncu_files.report(folder / "x.bin", launches)


def pprof(folder):
    path = folder / "x.prof"
    places = [(1, [("main", "m.go", 5)])]
    path.write_bytes(gzip.compress(message([((1,), (3, 300))], locations=places)))
    return path


MADE = {"nsys": nsys, "chrome": chrome, "ncu-csv": ncu_csv, "ncu-rep": ncu_rep, "pprof": pprof}


@pytest.mark.parametrize("name", MADE)
def test_a_file_is_recognised_by_content_and_becomes_a_trial(name, tmp_path, capsys):
    path = MADE[name](tmp_path)
    assert registry.recognised(path).name == name
    database = tmp_path / "taupy.db"
    assert main(["import", str(path), "--db", str(database)]) == 0
    assert "trial 1" in capsys.readouterr().err
    with ProfileDB.open(database) as db:
        (trial,) = db.trials()
        assert trial.source == f"import {name}: {path}"
        assert flat_rows(metrics.flat_profile(db, trial.id))
        kept = any(list(thread.activities) for thread in read_profile(db, trial.id).threads)
        assert kept == (name in ("nsys", "chrome"))
    with ProfileDB.open(database, readonly=False) as db:
        assert db.verify() == []


@pytest.mark.parametrize("name", MADE)
def test_a_file_that_is_cut_short_leaves_the_database_as_it_was(name, tmp_path, capsys):
    whole = MADE[name](tmp_path)
    cut = tmp_path / ("cut" + whole.suffix)
    data = whole.read_bytes()
    cut.write_bytes(data[: 40 if name in ("chrome", "ncu-csv") else len(data) * 2 // 3])
    database = tmp_path / "taupy.db"
    with ProfileDB.open(database, create=True) as db:
        add_profile(db, builders.small_profile())
    before = database.read_bytes()
    assert main(["import", str(cut), "--db", str(database), "--format", name]) == 1
    said = capsys.readouterr().err
    assert said.startswith("taupy: ") and cut.name in said and said.count("\n") == 1
    assert database.read_bytes() == before


def test_single_launches_are_kept_unless_only_sums_are_wanted(tmp_path):
    """Where the GPU's time went is known either way."""
    database, file = tmp_path / "taupy.db", str(nsys(tmp_path))
    assert main(["import", file, "--db", str(database)]) == 0
    assert main(["import", file, "--db", str(database), "--no-trace"]) == 0
    with ProfileDB.open(database) as db:
        kept = [
            sum(len(list(thread.activities)) for thread in read_profile(db, trial.id).threads)
            for trial in db.trials()
        ]
        assert kept == [200, 0]
        assert gpu_query.gpu_times(db, 1) == gpu_query.gpu_times(db, 2) != {}
        assert gpu_query.union_ns(db, 1) == gpu_query.union_ns(db, 2) != {}


@pytest.mark.parametrize("suffix", [".trace.json", ".pftrace", ".pb.gz"])
def test_a_trial_is_written_by_the_suffix_and_what_is_lost_is_reported(suffix, tmp_path, capsys):
    database = tmp_path / "taupy.db"
    with ProfileDB.open(database, create=True) as db:
        add_profile(db, builders.gpu_profile())
    target = tmp_path / f"out{suffix}"
    assert main(["export", "1", "-o", str(target), "--db", str(database)]) == 0
    assert "note: not written: user events" in capsys.readouterr().err
    assert target.stat().st_size > 100
    if suffix == ".trace.json":
        assert json.loads(target.read_text())["traceEvents"]
