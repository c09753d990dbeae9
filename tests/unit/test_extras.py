"""What is not needed by every run is an extra: its command says so, and nothing else imports it.

Each package is used by something that a user does: these commands fail without it.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace

import pytest

from taupy.answers import ANSWERS
from taupy.commands import main, packages
from taupy.cuda import by_pycuda
from taupy.cuda.driver import CudaError
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.unit.roofline.build import cpu_trial

DOORS = {  # package: (extra, command)
    "matplotlib": ("plots", "roofline 3 -o roof.svg"),
    "pyarrow": ("parquet", "export 1 -o trial.parquet"),
    "psycopg": ("store", "trials --db postgresql://nobody@127.0.0.1:1/none"),
    "datasette": ("serve", "serve"),
    "shtab": ("completion", "completion bash"),
    "msgspec": ("static", "static kernels.cubin"),
}


@pytest.fixture
def folder(two_trials):
    with ProfileDB.open("taupy.db", readonly=False) as db:
        add_profile(db, cpu_trial(3))
    return two_trials


@pytest.mark.parametrize("package", DOORS)
def test_a_command_names_the_extra_that_is_missing_in_one_line(
    folder, package, monkeypatch, capsys
):
    extra, command = DOORS[package]
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if name.startswith("taupy.static")]:
        monkeypatch.delitem(sys.modules, name)  # imports its package with itself
    assert main(command.split()) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert f"pip install 'taupy-profiler[{extra}]'" in line


WORK = {
    "sqlite_utils": "main(['trials', 'tag', '1', 'base']); print(*taupy.open().trial(1).row.tags)",
    "pandas": "print(*taupy.open().trials()['id'])",
    "rich": "os.environ['FORCE_COLOR'] = '1'; main(['pprof', '1'])",
    "pytest": "sys.exit(main(['run', '-m', 'pytest', '-q', 'test_mine.py']))",
}
SAID = {"sqlite_utils": "base", "pandas": "1 2 3", "rich": "\x1b[", "pytest": "1 passed"}
"""What a user does with the packages of the base and of tests, and what they see. `make pycuda
cupti-python` tests with these two."""


@pytest.mark.slow
@pytest.mark.parametrize("package", WORK)
def test_what_users_do_needs_each_package(folder, package, monkeypatch):
    (folder / "test_mine.py").write_text("def test_it():\n    assert 1\n")
    (folder / f"{package}.py").write_text("raise ImportError('not here')\n")
    for path, is_there in ((folder, False), (folder / "no", True)):
        monkeypatch.setenv("PYTHONPATH", str(path))
        code = f"import os, sys, taupy\nfrom taupy.commands import main\n{WORK[package]}\n"
        done = subprocess.run(
            [sys.executable, "-P", "-c", code], cwd=folder, capture_output=True, text=True
        )
        assert (SAID[package] in done.stdout) is is_there, done.stdout + done.stderr


def test_pycuda_is_an_extra_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycuda", None)
    with (
        pytest.raises(CudaError, match=r"pip install 'taupy-profiler\[pycuda\]'"),
        by_pycuda.context(SimpleNamespace(ordinal=0)),
    ):
        pass


def test_a_roofline_is_shown_and_drawn_by_the_browser_without_plots(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["roofline", "3"]) == 0
    assert main(["roofline", "3", "-o", "roof.html"]) == 0
    assert "<svg" in (folder / "roof.html").read_text("utf-8")


def test_running_and_reporting_import_no_extra(folder):
    """Nor pandas, which only notebooks do."""
    code = f"""if True:
        import sys
        sys.path += {sys.path!r}
        for name in {[*DOORS, "pandas", "duckdb", "fsspec", "sqlglot", "distributed", "cupti"]!r}:
            sys.modules[name] = None
        from taupy.commands import main
        for line in ("run -q -c pass", "pprof 1", "report 1", "report 1 -o page.html", "trials",
                     "compare 1 2", "export 1 -o trial.json", "import trial.json", "pivot",
                     "pivot --csv", "compare 1 2 --json", "query values(1)", "trials show 1"):
            assert main(line.split()) == 0, line
        for line in {[*ANSWERS, "sweep", "kernel k", "trials search main", "doctor", "roofline"]!r}:
            assert main(line.split()) in (0, 1, 2), line
    """
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=folder, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_what_conflicts_is_found(tmp_path, monkeypatch):
    for name, version, needs in (
        ("taupy-profiler", "1", ("pandas>=1.5.1", "rich>=12", 'plots-lib>=3; extra == "plots"')),
        ("pandas", "2.1.4", ("numpy<2,>=1.23.2", "tzdata>=2022.1", 'pytest>=7; extra == "test"')),
        ("numpy", "2.0.0rc1", ()),
        ("tzdata", "2026.1", ()),
    ):
        info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {need}" for need in needs]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    found = {(each.name, each.extra): each for each in packages.packages()}
    assert not found["rich", ""].version
    assert not found["plots-lib", "plots"].version
    assert found["pandas", ""].fits
    assert (found["numpy", ""].fits, found["numpy", ""].asked_by) == (False, "pandas")
    assert len(found) == 4


def test_what_only_taupy_needs_is_known(tmp_path, monkeypatch):
    """click is the user's own; rich was asked for by name; pandas has the extra of tabulate, whose
    other half is missing, and all of that of six; conda tells nothing of who asked for xlib."""
    for name, needs, file in (
        ("taupy-profiler", ("rich>=12", "sqlite-utils", "xlib", 'Plots.lib; extra == "plots"'), ""),
        ("sqlite-utils", ("click", "tabulate", 'pip; extra == "x"', "six"), ""),
        ("rich", ("Py_gments>=2",), "REQUESTED"),
        ("py.gments", (), ""),
        ("flask", ("click",), "REQUESTED"),
        ("pandas", ('tabulate; extra == "o"', 'jinja2; extra == "o"', 'six; extra == "e"'),
         "REQUESTED"),
        ("pip", (), ""), ("click", (), ""), ("tabulate", (), ""), ("six", (), ""),
        ("plots-lib", ("contour",), ""), ("contour", (), ""), ("other", (), ""), ("xlib", (), "c"),
    ):  # fmt: skip
        info = tmp_path / f"{name.replace('-', '_')}-1.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1"]
        lines += [f"Requires-Dist: {need}" for need in needs]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        (info / "INSTALLER").write_text("conda" if file == "c" else "pip\n")
        if file == "REQUESTED":
            (info / file).write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert packages.brought() == ["contour", "plots-lib", "sqlite-utils", "tabulate"]


def test_all_extras_of_users_are_listed():
    declared = set(metadata.metadata("taupy-profiler").get_all("Provides-Extra"))
    developers = {"test", "check", "browsers", "bench"}
    assert declared - developers - {"all"} == set(packages.EXTRAS)


def test_cleaning_removes_what_was_built_and_keeps_runs(tmp_path, monkeypatch, capsys):
    state, cache = tmp_path / "state", tmp_path / "cache" / "taupy"
    (state / "run-0-1").mkdir(parents=True)
    state.chmod(0o700)
    (state / "run-0-1").chmod(0o700)
    cache.mkdir(parents=True, mode=0o700)
    library, other = state / "autograd-2.9.0-00ff.so", state / "mine.txt"
    for file in (library, other, cache / "store-1.json"):
        file.write_text("")
    monkeypatch.setenv("TAUPY_STATE_DIR", str(state))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    main(["clean"])
    assert library.exists()
    assert f"would remove {library}" in capsys.readouterr().out
    assert main(["clean", "--all"]) == 1
    assert f"kept {state / 'run-0-1'}" in capsys.readouterr().err
    assert sorted(path.name for path in state.iterdir()) == ["mine.txt", "run-0-1"]
    assert not cache.exists()
    (state / "run-0-1").rmdir()
    other.unlink()
    capsys.readouterr()
    assert main(["clean", "--all"]) == 0
    said = capsys.readouterr()
    assert said.out == f"removed {state}\n"
    assert "nothing to remove" not in said.err
    assert not state.exists()
    assert main(["clean", "--all"]) == 0
    said = capsys.readouterr()
    assert not said.out
    assert "there is nothing to remove" in said.err
    assert not cache.exists()
