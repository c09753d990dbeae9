"""Time of routines that were compiled from Python to C stands at their callers, and is said to."""

import subprocess
import sysconfig

import pytest

from tests.fake_gpu import c_compiler

EXTENSION = """\
#include <Python.h>
#include <time.h>
static PyObject *busy(PyObject *self, PyObject *none)
{
    clock_t end = clock() + CLOCKS_PER_SEC * 6 / 5;
    while (clock() < end)
        ;
    Py_RETURN_NONE;
}
static PyMethodDef methods[] = {{"busy", busy, METH_NOARGS, NULL}, {NULL}};
static struct PyModuleDef core = {PyModuleDef_HEAD_INIT, "core", NULL, -1, methods};
PyMODINIT_FUNC PyInit_core(void) { return PyModule_Create(&core); }
"""


@pytest.mark.skipif(c_compiler() is None, reason="needs a C compiler")
def test_a_compiled_package_is_named_where_its_routines_are_missed(runs):
    package = runs.folder / "quick"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("from quick.core import busy\nbusy()\n")
    (package / "core.py").write_text("def busy(): ...\n")
    (runs.folder / "core.c").write_text(EXTENSION)
    library = package / f"core{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = sysconfig.get_path("include")
    command = [*c_compiler().split(), "-shared", "-fPIC", "-I", include, runs.folder / "core.c"]
    subprocess.run([*command, "-o", library], check=True)
    shown = _report(runs)
    assert "compiled modules of quick" in shown
    assert "quick has compiled modules, whose routines are not seen" in shown
    (package / "core.py").unlink()  # it is written in C
    assert "compiled" not in _report(runs)


def _report(runs):
    """The screen for `python -m quick`, as words in one line."""
    ended = runs.taupy("run", "-m", "quick")
    assert ended.returncode == 0, ended.stderr
    return " ".join(runs.taupy("report").stdout.split())
