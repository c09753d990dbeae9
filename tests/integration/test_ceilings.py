"""`taupy ceilings` as users type it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


def taupy(tmp_path, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "taupy", "ceilings", *arguments, "--db", str(tmp_path / "c.db")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )


@pytest.mark.slow
def test_the_cpu_is_measured_and_kept(tmp_path):
    measured = taupy(tmp_path, "--cpu", "--json")
    assert measured.returncode == 0, measured.stderr
    rows = json.loads(measured.stdout)["rows"]
    assert {row["name"] for row in rows} >= {"fp64", "fp32", "DRAM"}
    assert {row["unit"] for row in rows} >= {"flop/s", "B/s"}
    listed = taupy(tmp_path, "list", "--json")
    assert json.loads(listed.stdout)["rows"] == rows


@pytest.mark.slow
def test_datasheets_are_shown_and_kept_on_request(tmp_path):
    shown = taupy(tmp_path, "datasheet", "A100-SXM4-40GB", "--json")
    rows = json.loads(shown.stdout)["rows"]
    peaks = {row["name"]: row["value"] for row in rows if row["kind"] == "compute"}
    assert peaks["fp64"] == 9.7e12
    assert all(row["source"] == "datasheet" and row["reference"] for row in rows)
    assert not (tmp_path / "c.db").exists()
    assert taupy(tmp_path, "datasheet", "H200", "--keep").returncode == 0
    listed = json.loads(taupy(tmp_path, "list", "h200", "--json").stdout)["rows"]
    assert listed


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("datasheet", "Voodoo 2"), 1, "no datasheet for 'Voodoo 2'; known:"),
        (("datasheet",), 2, "name a GPU"),
        (("list", "--cpu"), 2, "--cpu and --gpu measure"),
        (("--gpu", "77"), 2, "no GPU 77"),
        (("list",), 1, "there is no database"),
    ],
)
def test_what_cannot_be_is_reported_in_one_line(tmp_path, arguments, code, says):
    done = taupy(tmp_path, *arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_could_not_be_stored_is_not_measured(tmp_path):
    os.mkfifo(tmp_path / "c.db")
    done = taupy(tmp_path, "--cpu")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("is a named pipe, not a database; name a file with --db FILE\n")
    assert done.stderr.count("\n") == 1
    done = taupy(tmp_path, "datasheet", "H200", "--keep")
    assert done.returncode == 1 and "H200" in done.stdout
    assert done.stderr.startswith("taupy: the ceilings were not stored: ")
