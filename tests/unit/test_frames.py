"""Frames are made in one place, and `--parquet` writes them."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import taupy
from taupy.commands import main

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

PACKAGE = Path(taupy.__file__).parent


def imports_of_pandas(module):
    """Outside `if TYPE_CHECKING`."""
    todo = [ast.parse(module.read_text("utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom) and "pandas" in ast.unparse(node):
            yield module.relative_to(PACKAGE).as_posix()
        todo += ast.iter_child_nodes(node)


@pytest.mark.slow  # and part of `make check`
def test_one_module_makes_frames():
    found = {name for module in PACKAGE.rglob("*.py") for name in imports_of_pandas(module)}
    assert found == {"frames.py"}


def written(*words):
    assert main([*words, "--parquet", "a.parquet"]) == 0
    return pd.read_parquet("a.parquet")


def test_comparisons_and_pivots_are_those_of_a_notebook(two_trials):
    db = taupy.open("taupy.db")
    for words, frame in (
        (["compare", "1", "2"], db.compare("1", "2")),
        (["pivot", "1", "2"], db.pivot("1", "2")),
    ):
        pd.testing.assert_frame_equal(written(*words), frame)


def test_a_profile_has_the_columns_of_its_csv(two_trials, capsys):
    frame = written("pprof", "1")
    assert capsys.readouterr().out == ""
    assert main(["pprof", "1", "--csv"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert [*frame.columns] == header.split(",")
    assert len(frame) == len(rows)


def test_what_parquet_cannot_hold_is_made_text(two_trials):
    sql = "SELECT 1 AS a, 2.5 AS b, 'x' AS c UNION ALL SELECT 'y', x'00ff', NULL"
    frame = written("query", sql)
    assert frame["a"].tolist() == ["1", "y"]
    assert frame["b"].tolist() == ["2.5", "x'00ff'"]
    assert frame["c"].fillna("").tolist() == ["x", ""]
    assert written("query", "SELECT 1 AS a WHERE 0").columns.tolist() == ["a"]


def refused(capsys, *words):
    assert main([*words]) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_what_cannot_be_written_is_said_in_one_line(two_trials, capsys, monkeypatch):
    doubled = ["query", "SELECT 1 AS a, 2 AS a", "--parquet", "a.parquet"]
    assert "two columns are named 'a'" in refused(capsys, *doubled)
    assert "none/a.parquet cannot be written" in refused(
        capsys, "pprof", "1", "--parquet", "none/a.parquet"
    )
    for name in ["pyarrow", *(name for name in sys.modules if name.startswith("pyarrow."))]:
        monkeypatch.setitem(sys.modules, name, None)
    line = refused(capsys, "pprof", "1", "--parquet", "a.parquet")
    assert "which is not installed: pip install 'taupy-profiler[parquet]'" in line
    (two_trials / "path" / "pyarrow").mkdir(parents=True)
    (two_trials / "path" / "pyarrow" / "__init__.py").write_text(
        "raise ImportError('NumPy is old')\n"
    )
    monkeypatch.delitem(sys.modules, "pyarrow")
    monkeypatch.syspath_prepend(two_trials / "path")
    line = refused(capsys, "pprof", "1", "--parquet", "a.parquet")
    assert "which cannot be imported (NumPy is old)" in line
    assert not Path("a.parquet").exists()
