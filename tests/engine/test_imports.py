"""An import is one row; what libraries do inside it is recorded only if somebody asks."""

from __future__ import annotations

import sys

import pytest

OWN = """
def helper():
    return 1
value = helper() + helper()
import colorsys
colorsys.rgb_to_hsv(1, 0, 0)
class Thing:
    pass
"""

FINDER = """
import sys
def noticed(name): pass
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        noticed(name)
"""


@pytest.fixture
def own(runner):
    (runner.folder / "own.py").write_text(OWN)
    return runner


def imports(trial) -> dict[str, int]:
    return {name: calls for name, calls in trial.calls().items() if name.startswith("import ")}


def test_the_import_of_a_library_is_one_row(runner, native):
    trial = runner.run("import colorsys\nimport html.parser\nimport colorsys\n", native)
    assert imports(trial) == {"import colorsys": 1, "import html.parser": 1}
    row = trial.under("<module>", "import html.parser")
    assert (row.groups, row.subroutines) == (("IMPORT",), 0)
    assert 0 < row.inclusive == row.exclusive
    machinery = [path for path in trial.paths() if "importlib" in (path.files[-1] or "")]
    # 3.15 lets go of the module's lock after the import: its callback is a call like any other.
    assert all(path.names[-1] == "_get_module_lock.<locals>.cb" for path in machinery)
    assert not machinery or sys.version_info >= (3, 15)


def test_packages_of_another_environment_are_libraries(own, native):
    packages = own.folder / "other" / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "elsewhere.py").write_text("import html.parser\ndef work(): pass\nwork()\n")
    path = f"import sys\nsys.path.append({str(packages)!r})\n"
    trial = own.run(path + "import elsewhere\nelsewhere.work()\n", native)
    assert imports(trial) == {"import elsewhere": 1}
    assert trial.under("<module>", "import elsewhere").subroutines == 0
    assert trial.calls("elsewhere.py")["work"] == 1


@pytest.mark.slow
def test_all_of_it_is_recorded_if_asked_for(runner, native):
    trial = runner.run("import html.parser\n", native, "--imports")
    assert imports(trial) == {}
    assert trial.calls("html/parser.py")["<module>"] == 1
    assert trial.metadata()["taupy.option.imports"] == "True"


@pytest.mark.slow
def test_modules_of_the_program_are_recorded_as_ever(own, native):
    trial = own.run("import own\nown.helper()\n", native)
    inside = ("<module>", "import own", "<module>")
    assert trial.under(*inside).calls == 1
    assert trial.under(*inside, "helper").calls == 2
    assert trial.under(*inside, "Thing").calls == 1
    assert trial.under(*inside, "import colorsys").calls == 1
    assert trial.under(*inside, "rgb_to_hsv").calls == 1
    assert trial.under(".taupy application", "<module>", "helper").calls == 1


@pytest.mark.slow
def test_routines_of_libraries_are_exact_outside_imports(runner, native):
    program = """
import colorsys
def work():
    for _ in range(7):
        colorsys.hls_to_rgb(0.1, 0.2, 0.3)
work()
"""
    calls = runner.run(program, native).calls("colorsys.py")
    assert calls == {"hls_to_rgb": 7, "_v": 21}


@pytest.mark.slow
def test_what_an_import_calls_back_is_recorded(runner, native):
    trial = runner.run(FINDER + "sys.meta_path.insert(0, Finder)\nimport html.parser\n", native)
    assert trial.under("import html.parser", "Finder.find_spec").calls >= 3
    noticed = trial.under("import html.parser", "Finder.find_spec", "noticed")
    assert noticed.calls == trial.under("import html.parser", "Finder.find_spec").calls


@pytest.mark.slow
def test_a_library_that_is_called_back_into_is_recorded_wholly(runner, native):
    program = FINDER.replace("pass", "colorsys.hls_to_rgb(0.1, 0.2, 0.3)").replace(
        "import sys", "import sys, colorsys"
    )
    trial = runner.run(
        program + "sys.meta_path.insert(0, Finder)\nimport this_is_not\n", native, check=False
    )
    assert (
        trial.under("import this_is_not", "Finder.find_spec", "noticed", "hls_to_rgb", "_v").calls
        == 3
    )


@pytest.mark.slow
def test_imports_in_functions_stand_there(runner, native):
    program = """
def lazy():
    import colorsys
    return colorsys
def first(): lazy()
def second(): lazy(); lazy()
first()
second()
"""
    trial = runner.run(program, native)
    assert trial.under("first", "lazy", "import colorsys").calls == 1
    assert trial.under("second", "lazy").subroutines == 0


@pytest.mark.slow
def test_import_module_is_an_import_like_others(runner, native):
    program = """
from importlib import import_module
for _ in range(3):
    import_module("colorsys")
"""
    trial = runner.run(program, native)
    assert imports(trial)["import colorsys"] == 1
    assert trial.calls("importlib/__init__.py") == {"import_module": 3}
    assert trial.calls("<frozen importlib._bootstrap>")["_find_and_load"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("module", ["colorsys.nothing", "broken"])
def test_an_import_that_fails_is_closed(own, native, module):
    (own.folder / "broken.py").write_text("import own\ndef fail(): raise OSError\nfail()\n")
    program = f"""
def after(): pass
def attempt():
    try:
        import {module}
    except (ImportError, OSError):
        after()
attempt()
attempt()
after()
"""
    trial = own.run(program, native)
    assert trial.under("attempt", f"import {module}").calls == 2
    assert trial.under("attempt", "after").calls == 2
    assert trial.under("<module>", "after").calls == 1
    assert trial.under("<module>", "attempt").calls == 2


@pytest.mark.slow
def test_each_thread_has_its_own_imports(runner, native):
    program = """
import threading
def work(number):
    for _ in range(50):
        step()
    if number == 1:
        import html.parser
def step(): pass
threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    trial = runner.run(program, native)
    assert sum(p.calls for p in trial.paths() if p.names[-2:] == ("work", "step")) == 150
    assert trial.under("work", "import html.parser").calls == 1


@pytest.mark.slow
def test_generators_pass_through_an_import_unharmed(runner, native):
    program = (
        FINDER.replace("pass", "next(numbers)")
        + """
def count():
    for number in range(1000):
        yield number
def use(): return next(numbers)
numbers = count()
use()
sys.meta_path.insert(0, Finder)
import colorsys
del sys.meta_path[0]
use()
"""
    )
    trial = runner.run(program, native)
    assert trial.calls("prog.py")["count"] == 1
    assert trial.under("use", "count").calls == 1
    assert trial.under("<module>", "use").calls == 2
    assert trial.under("noticed", "count").calls == 0


@pytest.mark.slow
def test_a_fork_inside_an_import_goes_on_below_it(runner, native):
    (runner.folder / "forks.py").write_text(
        "import os\ndef child(): pass\n"
        "if not os.fork():\n    child()\n    child()\nelse:\n    os.wait()\n"
    )
    trial = runner.run("import forks\ndef end(): pass\nend()\n", native)
    paths = [p for p in trial.paths() if p.names[-1] == "child"]
    assert [(p.names[1:], p.calls, p.node) for p in paths] == [
        (("<module>", "import forks", "<module>", "child"), 2, 1)
    ]
    ends = [p for p in trial.paths() if p.names[-1] == "end" and p.calls]
    assert [(p.names[1:], p.calls) for p in ends] == [(("<module>", "end"), 1)] * 2


@pytest.mark.slow
def test_code_without_a_file_is_the_programs_if_main_has_it(runner, native):
    program = FINDER.replace("def noticed(name): pass", 'exec("def noticed(name): pass")')
    trial = runner.run(program + "sys.meta_path.insert(0, Finder)\nimport dataclasses\n", native)
    assert trial.under("import dataclasses", "Finder.find_spec", "noticed").calls >= 1
    names = {p.names[-1] for p in trial.paths() if "import dataclasses" in p.names}
    assert names == {"import dataclasses", "Finder.find_spec", "noticed"}


@pytest.mark.slow
def test_a_disabled_group_has_no_imports(runner, native):
    program = """
import taupy
taupy.disable("IMPORT")
import colorsys
"""
    assert "import colorsys" not in imports(runner.run(program, native))


@pytest.mark.slow
def test_call_paths_that_are_too_deep_hide_imports(own, native):
    program = "def one(): two()\ndef two():\n    import own\none()\none()\n"
    trial = own.run(program, native, "--depth", "3")
    assert {p.names[1:]: p.calls for p in trial.paths() if "<module>" in p.names} == {
        ("<module>",): 1,
        ("<module>", "one"): 2,
        ("<module>", "one", "two"): 2,
    }


@pytest.mark.slow
def test_c_functions_of_an_import_are_not_recorded(runner, native):
    trial = runner.run("import html.parser\nlen('x')\n", native, "--c-calls")
    assert trial.under("<module>", "import html.parser").subroutines == 0
    assert trial.under("<module>", "builtins.len").calls == 1


@pytest.mark.skipif(sys.version_info < (3, 15), reason="lazy imports came with Python 3.15")
def test_what_is_imported_lazily_is_an_import_where_its_name_is_first_used(own, native):
    trial = own.run(
        """
import sys
lazy import html.parser
lazy import own
def before(): return "html.parser" in sys.modules
def first(): return html.parser.HTMLParser
def second(): return html.parser.HTMLParser
def mine(): return own.helper()
print(before())
first(), second(), mine()
""",
        native,
    )
    assert trial.stdout == "False\n"
    assert imports(trial)["import html.parser"] == 1
    user = trial.under("first")
    below = [path for path in trial.paths() if path.names[:-1] == user.names]
    rows = [path for path in below if path.groups == ("IMPORT",)]
    # 3.15 lets go of the module's lock after the import: its callback is a call like any other.
    assert {path.names[-1] for path in below if path not in rows} <= {
        "_get_module_lock.<locals>.cb"
    }
    assert user.exclusive == user.inclusive - sum(path.inclusive for path in below)
    assert user.exclusive < sum(path.inclusive for path in rows)
    assert trial.under("second").subroutines == 0
    assert trial.calls("own.py")["helper"] == 3
