"""Commands and the storer import taupy's modules by a shorter way, with the same result."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import taupy

HOME = Path(taupy.__file__).parent
BEGIN = "from taupy import importing; importing.begin()\n"
MODULES = """
import sys
def described(module):
    spec = module.__spec__
    return [
        module.__name__, module.__file__, module.__package__, getattr(module, "__path__", None),
        type(module.__loader__), spec.loader is module.__loader__, spec.name, spec.origin,
        spec.parent, spec.submodule_search_locations, spec.has_location, spec.cached,
        module.__loader__.path, module.__loader__.is_package(module.__name__), module.__doc__,
        getattr(sys.modules[spec.parent], module.__name__.rpartition(".")[2], module) is module,
    ]
import taupy.delivery, taupy.instrument.launch, taupy.commands.run, taupy.commands.report
from taupy.profiledb import database as db, schema
from taupy.model.metric import NOT_ROUTINES
assert db is sys.modules["taupy.profiledb.database"]
for name, module in sorted(sys.modules.items()):
    if name.startswith("taupy.") and name != "taupy.importing":
        print(*described(module))
"""


def output(code, folder=HOME.parent, **variables):
    environment = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"],
        capture_output=True, text=True, timeout=60, env=environment | variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def package(tmp_path, **modules):
    """A copy of what the short way needs, with further modules beside it; compiled."""
    folder = tmp_path / "taupy"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "importing.py").write_text((HOME / "importing.py").read_text())
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    subprocess.run([sys.executable, "-m", "compileall", "-q", folder], check=True)
    return folder


def test_modules_are_the_same_as_by_importlib():
    output(f"import compileall; compileall.compile_dir({str(HOME)!r}, quiet=1)")
    usual = output(MODULES).splitlines()
    assert len(usual) > 100
    assert output(BEGIN + MODULES).splitlines() == usual


@pytest.mark.parametrize("command", ["run", "report", "pprof", "compare"])
def test_commands_import_so(command):
    """Python lists what importlib imports."""
    output(f"import compileall; compileall.compile_dir({str(HOME)!r}, quiet=1)")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "taupy", command, "--help"],
        capture_output=True, text=True, timeout=60, cwd=HOME.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    listed = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "taupy" in listed and f"taupy.commands.{command}" not in listed


def test_an_import_makes_a_fifth_of_the_calls(tmp_path):
    package(tmp_path, module="x = 1")
    count = """
calls = 0
def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
sys.setprofile(count)
import taupy.module
sys.setprofile(None)
print(calls)
"""
    usual = int(output(f"import taupy\n{count}", tmp_path))
    assert int(output(BEGIN + count, tmp_path)) < usual / 5


def test_bytecode_that_is_older_than_its_source_is_not_run(tmp_path):
    source = package(tmp_path, module="print('before')") / "module.py"
    source.write_text("print('after, and longer')")
    assert output(f"{BEGIN}import taupy.module", tmp_path) == "after, and longer\n"


def test_modules_without_bytecode_are_imported(tmp_path):
    (package(tmp_path) / "module.py").write_text("print(__name__)")
    assert output(f"{BEGIN}from taupy import module", tmp_path) == "taupy.module\n"


def test_bytecode_elsewhere_is_left_to_importlib(tmp_path):
    package(tmp_path, module="print(__spec__.cached)")
    shown = output(f"{BEGIN}import taupy.module", tmp_path, PYTHONPYCACHEPREFIX=str(tmp_path / "c"))
    assert shown.startswith(str(tmp_path / "c"))


def test_a_module_that_fails_can_be_imported_again(tmp_path):
    package(tmp_path, module="import taupy.tried; taupy.tried.times += 1; 1 / 0", tried="times = 0")
    twice = """
for _ in range(2):
    try:
        import taupy.module
    except ZeroDivisionError:
        print("taupy.module" in sys.modules, sys.modules["taupy.tried"].times)
"""
    assert output(BEGIN + twice, tmp_path) == "False 1\nFalse 2\n"


def test_what_is_missing_is_missing_as_usual(tmp_path):
    package(tmp_path)
    tried = """
for line in ("import taupy.no", "from taupy import no", "from taupy.importing import no",
             "from taupy.no import it", "import taupy.importing.no"):
    try:
        exec(line)
    except ImportError as problem:
        print(type(problem).__name__, problem.name, str(problem).partition("(")[0])
"""
    usual = output(f"import taupy.importing\n{tried}", tmp_path)
    assert output(BEGIN + tried, tmp_path) == usual
    assert usual.count("\n") == 5
