/* The program's own profile function; see setprofile.h. */
#include "setprofile.h"
#include "hooks.h"
#include "wrap.h"

static PyCFunction real_setprofile, real_setprofile_all;
static Py_tracefunc programs_own; /* from sys.setprofile; calls a Python function */

static PyObject *wrapped_setprofile(PyObject *module, PyObject *function);
static PyObject *wrapped_setprofile_all(PyObject *module, PyObject *function);

static int programs_first(PyObject *function, PyFrameObject *frame, int what, PyObject *arg)
{
    PyThreadState *state = PyThreadState_Get();
    if (state->c_profilefunc == programs_first)
        state->c_profilefunc = programs_own;
    if (what == PyTrace_C_RETURN && PyCFunction_Check(arg) &&
        (PyCFunction_GET_FUNCTION(arg) == wrapped_setprofile ||
         PyCFunction_GET_FUNCTION(arg) == wrapped_setprofile_all))
        return 0;
    return programs_own(function, frame, what, arg);
}

static PyObject *set_profile(PyCFunction real, PyObject *module, PyObject *function)
{
    PyThreadState *state = PyThreadState_Get();
    int only_we = hooks_have_c_calls_alone(state);
    PyObject *result = real(module, function);
    if (only_we && result != NULL && state->c_profilefunc != NULL) {
        programs_own = state->c_profilefunc;
        state->c_profilefunc = programs_first;
    }
    return result;
}

static PyObject *wrapped_setprofile(PyObject *module, PyObject *function)
{
    return set_profile(real_setprofile, module, function);
}

static PyObject *wrapped_setprofile_all(PyObject *module, PyObject *function)
{
    return set_profile(real_setprofile_all, module, function);
}

void wrap_setprofile(void)
{
    PyObject *sys = record_c_calls ? PyImport_ImportModule("sys") : NULL;
    if (sys != NULL) {
        wrap(sys, "setprofile", &real_setprofile, (void *)wrapped_setprofile, METH_O);
        wrap(sys, "_setprofileallthreads", &real_setprofile_all, (void *)wrapped_setprofile_all,
             METH_O);
    }
    PyErr_Clear();
    Py_XDECREF(sys);
}
