"""The text of the program's own files is kept with the trial: nothing else, and no secret in it."""

from __future__ import annotations

import base64
import re
import zlib

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.source_texts import sources_of
from tests.in_process import taupy

PROGRAM = """\
import json, helper
api_key = "sk-aaaabbbbccccdddd1111"
rest = {"password": "hunter2", "n": 3}

def work():
    return json.dumps(helper.help(rest))

work()
"""
HELPER = "def help(value):\n    return sorted(value)\n"
MASKED = PROGRAM.replace("sk-aaaabbbbccccdddd1111", "MASKED" + "*" * 17).replace(
    "hunter2", "MASKED*"
)


@pytest.fixture
def program(runs):
    (runs.folder / "helper.py").write_text(HELPER)
    return runs.run


def texts(database, trial=1):
    with ProfileDB.open(database) as db:
        return {source.file: "\n".join(source.lines) for source in sources_of(db, trial)}


def notes(database, trial=1):
    with ProfileDB.open(database) as db:
        return {source.file: (source.origin, source.note) for source in sources_of(db, trial)}


def test_own_files_are_kept_and_secrets_in_them_are_masked_in_place(runs, program, native):
    assert program(PROGRAM).returncode == 0
    kept = texts(runs.database)
    (script,) = kept.keys() - {"helper.py"}
    assert kept == {script: MASKED, "helper.py": HELPER}
    assert b"hunter2" not in runs.database.read_bytes()
    assert notes(runs.database)[script] == ("trial", "secrets are masked in 2 of its lines")


def test_without_source_a_line_is_shown_while_the_file_is_the_same(runs, program, native):
    assert program(PROGRAM, "--no-source").returncode == 0
    # The script has secrets: it is not read again, since they would be shown.
    assert texts(runs.database) == {"helper.py": HELPER}
    assert notes(runs.database)["helper.py"] == ("disk", "")
    (runs.folder / "helper.py").write_text(HELPER + "# more\n")
    assert texts(runs.database) == {}


def test_a_project_can_turn_it_off(runs, program, native):
    (runs.folder / "pyproject.toml").write_text("[tool.taupy]\nsource = false\n")
    program(PROGRAM)
    assert notes(runs.database)["helper.py"][0] == "disk"
    program(PROGRAM, "--source")
    assert notes(runs.database, 2)["helper.py"][0] == "trial"


def test_a_file_that_has_changed_is_said_to_have(runs, program, native):
    program(PROGRAM)
    (runs.folder / "helper.py").write_text("# another\n")
    assert texts(runs.database)["helper.py"] == HELPER
    assert notes(runs.database)["helper.py"] == ("trial", "changed since: this is what it was")
    (runs.folder / "helper.py").write_text(HELPER)
    program("open(__file__, 'a').write('# new')\n" + PROGRAM)
    (script,) = texts(runs.database, 2).keys() - {"helper.py"}
    assert "may not be what ran" in notes(runs.database, 2)[script][1]


def test_the_text_of_c_is_kept(runs, native):
    code = "def f():\n    return sum(range(9))\nf()"
    runs.taupy("run", "--db", runs.database, "-c", code)
    assert texts(runs.database) == {"<string>": code}


@pytest.mark.parametrize("with_source", [False, True])
def test_merging_copies_the_text_only_if_asked(runs, program, native, tmp_path, with_source):
    program(PROGRAM)
    target = tmp_path / "target.db"
    assert taupy("merge", "--into", target, runs.database).returncode == 0
    (runs.folder / "helper.py").unlink()
    assert texts(target) == {}
    assert b"sorted" not in target.read_bytes()
    more = ["--with-source"] if with_source else []
    assert taupy("merge", "--into", target, runs.database, *more).returncode == 0
    assert texts(target) == (texts(runs.database) if with_source else {})


def test_no_export_contains_it(runs, program, native, tmp_path):
    program(PROGRAM)
    for name in ("tau", "speedscope", "chrome", "collapsed", "csv", "pprof"):
        out = tmp_path / name
        done = taupy("export", "1", "--db", runs.database, "--format", name, "-o", out)
        assert done.returncode == 0, done.stderr
        files = out.iterdir() if out.is_dir() else [out]
        assert all(b"return sorted" not in file.read_bytes() for file in files)


def contents_of(page) -> str:
    """What a page's scripts read."""
    (packed,) = re.findall(r'id="contents">([^<]*)<', page.read_text("utf-8"))
    return zlib.decompress(base64.b64decode(packed)).decode()


def test_a_page_says_that_it_holds_source_and_can_be_without(runs, program, native):
    program(PROGRAM)
    for name, more in (("with", []), ("without", ["--no-source"])):
        page = runs.folder / f"{name}.html"
        done = runs.taupy("report", "-o", str(page), "--db", str(runs.database), *more)
        assert done.returncode == 0, done.stderr
        held = contents_of(page)
        assert ("return sorted(value)" in held) == (not more)
        assert ("This page holds the source text of 2 files" in held) == (not more)
        assert "hunter2" not in held
