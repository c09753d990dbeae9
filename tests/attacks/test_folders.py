"""taupy's own processes import nothing from the current folder or the program's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import taupy

TRAP = "import os\nopen({mark!r}, 'a').write(__name__ + ' ' + ' '.join(os.sys.orig_argv) + '\\n')\n"
NAMES = (
    "resource", "argparse", "sqlite3", "json", "numpy", "pandas", "msgspec", "sqlglot", "IPython",
    "datasette", "pynvml", "torch", "tomllib", "shutil", "zipfile", "pyarrow", "duckdb", "psycopg",
    "fsspec", "greenlet", "sitecustomize", "usercustomize", "tqdm", "rich", "matplotlib",
)  # fmt: skip


@pytest.fixture
def trapped(runs, native):
    """The current folder has modules of many names; the program imports none."""
    (runs.folder / "prog.py").write_text("import time\ntime.sleep(0.3)\n")
    mark = str(runs.folder / "mark")
    for name in NAMES:
        if name not in ("sitecustomize", "usercustomize"):
            (runs.folder / f"{name}.py").write_text(TRAP.format(mark=mark))
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("python_path", ["", ".", "here"])
def test_nothing_is_imported_from_the_current_folder(trapped, python_path):
    if python_path:
        path = str(trapped.folder) if python_path == "here" else "."
        trapped.environment = {"PYTHONPATH": path}
    # As for a taupy without its optional dependencies: what is not installed is looked for.
    hide = "import sys; sys.modules.pop('numpy', None)"
    for command in (["run", "-c", hide], ["trials"], ["pprof"], ["doctor"]):
        words = [sys.executable, "-m", "taupy", *command]
        done = subprocess.run(
            words, cwd=trapped.folder, env=trapped.environ(), capture_output=True, text=True,
            timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    mark = trapped.folder / "mark"
    lines = mark.read_text().splitlines() if mark.exists() else []
    assert [line for line in lines if "-m taupy" in line or "import taupy" in line] == []


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_state_folder_that_others_can_replace_is_not_used(runs, native, mode):
    """Who may write into the folder above puts another one in its place."""
    above = runs.folder / "all"
    above.mkdir()
    above.chmod(mode)
    mine = runs.folder / "mine"
    runs.environment = {"TAUPY_STATE_DIR": str(above / "state"), "XDG_STATE_HOME": str(mine)}
    runs.environment["SHARED"] = str(above)
    done = runs.run("import os; print(os.listdir(os.environ['SHARED'] + '/state'))")
    assert done.returncode == 0 and done.stdout == "[]\n", done.stderr
    assert f"may write to {above}, and could put another folder in the place of" in done.stderr
    assert "another state folder is used" in done.stderr
    assert runs.one("SELECT state FROM trial") == "complete" and mine.exists()


def test_the_current_folder_is_not_on_the_path_of_a_command_or_of_the_storer(runs, native):
    code = "import sys; from taupy import __main__ as m; m._own_libraries_only(); print(sys.path)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=runs.folder,
        env={**os.environ, "PYTHONPATH": f"{runs.folder}:.:"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(runs.folder) not in done.stdout and "''" not in done.stdout
    source = """
import os
state = os.environ["TAUPY_STATE_DIR"]
folder = next(f"{state}/{name}" for name in os.listdir(state) if name.startswith("run-"))
print(open(folder + "/run", "rb").read().split(b"module_path")[1].split(b"library_folders")[0])
"""
    (runs.folder / "sub").mkdir()
    (runs.folder / "sub" / "prog.py").write_text(source)
    runs.environment = {"PYTHONPATH": f"{runs.folder}:{runs.folder}/sub"}
    done = runs.taupy("run", "--db", "x.db", "sub/prog.py")
    assert done.returncode == 0 and str(runs.folder) not in done.stdout, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_pictures_take_no_settings_from_the_current_folder(tmp_path, kind):
    """LaTeX would run for each text of a picture, most of which are names from a database."""
    pytest.importorskip("matplotlib")
    (tmp_path / "latex").write_text(f"#!/bin/sh\necho run >>{tmp_path}/mark\nexit 1\n")
    (tmp_path / "latex").chmod(0o755)
    if kind == "pipe":
        os.mkfifo(tmp_path / "matplotlibrc")
    else:
        (tmp_path / "matplotlibrc").write_text("text.usetex: True\n")
    draw = "from matplotlib.figure import Figure; f = Figure(); f.suptitle('x'); f.savefig('x.png')"
    code = f"from taupy.drawing import import_matplotlib as i; i(); import os; {draw}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.png").exists() and not (tmp_path / "mark").exists()


def test_whatever_draws_imports_matplotlib_in_this_way():
    sources = {file: file.read_text() for file in Path(taupy.__file__).parent.rglob("*.py")}
    drawing = {file for file, text in sources.items() if "from matplotlib" in text}
    assert len(drawing) == 2
    assert all("        import_matplotlib()\n" in sources[file] for file in drawing)
