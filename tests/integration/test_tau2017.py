"""The slides' tables of 2017, from trials made of the printed numbers, digit for digit."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from taupy.profiledb.audit import audit
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.sql import run_sql
from tests import in_process

FOLDER = Path(__file__).parents[2] / "examples" / "tau2017"
GPUS = ("K80", "M40", "P100")


def printed(name):
    with open(FOLDER / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("tau2017") / "tau2017.db"
    for _ in range(2):  # the second time nothing is added
        made = subprocess.run(
            [sys.executable, FOLDER / "make.py", path], capture_output=True, text=True, check=True
        )
        assert made.stdout == f"{path}: 24 trials\n"
    return path


def sql(path, statement):
    with ProfileDB.open(path) as db:
        return list(run_sql(db, statement)[1])


def taupy(database, *arguments):
    shown = in_process.taupy(*arguments, "--db", database, "--json", cwd=database.parent)
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)["rows"]


def digits(value, text):
    """The number as the slide spells it: with as many digits behind the point."""
    return f"{value:.{len(text.partition('.')[2])}f}"


def test_the_database_is_sound(database):
    with ProfileDB.open(database) as db:
        assert list(audit(db)) == []


def test_the_readmes_query_gives_the_total_execution_times(database):
    text = (FOLDER / "README.md").read_text()
    query = text[text.index("    SELECT") : text.index(";", text.index("    SELECT"))]
    found = {(app, library, gpu): usec for app, library, gpu, usec in sql(database, query)}
    assert len(found) == 24
    for row in printed("times"):
        for gpu in GPUS:
            usec = found[row["application"], row["library"], gpu]
            assert digits(usec, row[gpu]) == row[gpu]


def test_pivot_gives_the_total_execution_times(database):
    rows = taupy(database, "pivot", "--rows", "application,library", "--columns", "gpu")
    found = {(row["application"], row["library"]): row for row in rows}
    for row in printed("times"):
        cells = found[row["application"], row["library"]]
        for gpu in GPUS:
            (value,) = [cells[name] for name in cells if name.partition("_")[0] == gpu]
            assert digits(value / 1000, row[gpu]) == row[gpu]


RATIOS = """
    SELECT trial.application, trial.experiment, one.timer, trial.trial,
           1.0 * one.exclusive / other.exclusive
      FROM trials AS trial
      JOIN pprof AS one ON one.trial_id = trial.trial_id AND one.metric = '{metric}'
      JOIN pprof AS other ON other.trial_id = trial.trial_id AND other.metric = 'inst'
                         AND other.timer = one.timer
"""


@pytest.mark.parametrize("metric", ["warps", "gld"])
def test_ratios_by_application_kernel_and_gpu(database, metric):
    found = {tuple(row[:4]): row[4] for row in sql(database, RATIOS.format(metric=metric))}
    table = [row for row in printed("ratios") if row["metric"] == f"{metric}/inst"]
    assert len(found) == 3 * len(table) == 24
    for row in table:
        for gpu in GPUS:
            value = found[row["application"], row["library"], row["kernel"], gpu]
            assert digits(value, row[gpu]) == row[gpu]


@pytest.mark.parametrize("metric", ["warps_per_inst", "gld_per_inst"])
def test_pivot_gives_the_ratios(database, metric):
    rows = taupy(
        database,
        *("pivot", "--rows", "library,application,kernel", "--columns", "gpu", "--cell", metric),
    )
    found = {(row["library"], row["application"], row["kernel"]): row for row in rows}
    for row in printed("ratios"):
        if row["metric"].partition("/")[0] == metric.partition("_")[0]:
            cells = found[row["library"], row["application"], row["kernel"]]
            for gpu in GPUS:
                (value,) = [cells[name] for name in cells if name.partition("_")[0] == gpu]
                assert digits(value, row[gpu]) == row[gpu]


@pytest.mark.parametrize("gpu", ["M40", "P100"])
def test_tuning_candidates_come_in_the_printed_order(database, gpu):
    table = [row for row in printed("tuning") if row["gpu"] == gpu]
    for metric in ("warps_per_inst_x_time", "gmem_per_inst_x_time"):
        found = sql(
            database,
            f"SELECT timer, exclusive FROM pprof WHERE application = 'VGG' AND trial = '{gpu}'"
            f" AND metric = '{metric}' AND calls > 0 ORDER BY exclusive DESC",
        )
        values = {timer: value for timer, value in found}
        for row in table:
            assert digits(values[row["kernel"]], row[metric]) == row[metric]
        if metric.startswith("warps"):
            assert [timer for timer, _ in found] == [row["kernel"] for row in table]


def test_candidates_gives_them_too(database):
    rows = taupy(
        database,
        *("candidates", "VGG/Neon/P100", "--metric", "warps_per_inst_x_time", "--order", "value"),
    )
    table = [row for row in printed("tuning") if row["gpu"] == "P100"]
    assert [row["timer"] for row in rows] == [row["kernel"] for row in table]


def test_the_slips_are_as_the_readme_says():
    """What is called a slip must be one."""
    quotients = {
        (row["gpu"], row["kernel"]): Decimal(row["warps_per_inst_x_time"])
        / Decimal(row["gmem_per_inst_x_time"])
        for row in printed("tuning")
    }
    for (gpu, kernel), quotient in quotients.items():
        expected = {"M40": "112.66", "P100": "917.86"}[gpu] if kernel != "prepare" else "26963.1"
        assert digits(quotient, expected) == expected
    ratios = {}
    for row in printed("ratios"):
        if row["library"] == "Neon":
            ratios.setdefault((row["application"], row["metric"]), set()).add(
                tuple(row[gpu] for gpu in GPUS)
            )
    assert all(len(values) == 1 for values in ratios.values())


def test_a_gpu_is_found_by_its_name(database):
    rows = taupy(database, "trials", "gpu=P100")
    assert len(rows) == 8
    rows = taupy(database, "sweep", "--by", "GPU Name", "VGG/Torch", "--show", "totals")
    assert [(row["value"], row["median_ns"]) for row in rows] == [
        ("K80", 14956690750),
        ("M40", 5059248250),
        ("P100", 5177141250),
    ]
