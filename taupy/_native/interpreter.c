/* See interpreter.h. */
#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE 1
#include "interpreter.h"
#include "process.h"
#include "remote.h"
#include <Python.h>
#include <sys/prctl.h>

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif

long reader_pid;

uint64_t interpreter_thread(void)
{
    if (!python_is_there())
        return 0;
#if PY_VERSION_HEX >= 0x030D0000
    return (uint64_t)(uintptr_t)PyThreadState_GetUnchecked();
#else
    return (uint64_t)(uintptr_t)_PyThreadState_UncheckedGet();
#endif
}

#ifdef Py_GIL_DISABLED
/* Not there: objects and bytecode are laid out otherwise. */
void interpreter_fields(RemoteLayout *layout) { memset(layout, 0, sizeof *layout); }

PyObject *interpreter_layout(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyErr_Format(PyExc_RuntimeError, "it is a free-threaded build of Python");
}
#else

#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe_structs.h>
#endif

/* The value of a text's state with one of its bit fields set. */
#define STATE_WITH(to, field, value)                                                               \
    do {                                                                                           \
        PyASCIIObject text_;                                                                       \
        memset(&text_, 0, sizeof text_);                                                           \
        text_.state.field = (value);                                                               \
        memcpy(&(to), &text_.state, sizeof(to));                                                   \
    } while (0)

void interpreter_fields(RemoteLayout *layout)
{
    uint32_t kind, compact, ascii;
    STATE_WITH(kind, kind, 1);
    STATE_WITH(compact, compact, 1);
    STATE_WITH(ascii, ascii, 1);
    *layout = (RemoteLayout){
        .version = PY_VERSION_HEX,
        .code_type = (uint64_t)(uintptr_t)&PyCode_Type,
        .gil_size = sizeof(struct _gil_runtime_state),
        .thread_native_id = offsetof(PyThreadState, native_thread_id),
        .thread_chunk = offsetof(PyThreadState, datastack_chunk),
        .frame_previous = offsetof(_PyInterpreterFrame, previous),
        .frame_owner = offsetof(_PyInterpreterFrame, owner),
        .frame_size = offsetof(_PyInterpreterFrame, localsplus),
        .object_type = offsetof(PyObject, ob_type),
        .var_size = offsetof(PyVarObject, ob_size),
        .code_file = offsetof(PyCodeObject, co_filename),
        .code_name = offsetof(PyCodeObject, co_qualname),
        .code_lines = offsetof(PyCodeObject, co_linetable),
        .code_first_line = offsetof(PyCodeObject, co_firstlineno),
        .code_code = offsetof(PyCodeObject, co_code_adaptive),
        .bytes_data = offsetof(PyBytesObject, ob_sval),
        .text_length = offsetof(PyASCIIObject, length),
        .text_state = offsetof(PyASCIIObject, state),
        .text_ascii = sizeof(PyASCIIObject),
        .text_compact = sizeof(PyCompactUnicodeObject),
        .kind_shift = (uint64_t)__builtin_ctz(kind),
        .compact_bit = compact,
        .ascii_bit = ascii,
#if PY_VERSION_HEX >= 0x030E0000
        .owner_shim = FRAME_OWNED_BY_INTERPRETER,
#elif PY_VERSION_HEX >= 0x030C0000
        .owner_shim = FRAME_OWNED_BY_CSTACK,
#endif
#if PY_VERSION_HEX >= 0x030D0000
        .thread_frame = offsetof(PyThreadState, current_frame),
        .frame_code = offsetof(_PyInterpreterFrame, f_executable),
        .frame_instruction = offsetof(_PyInterpreterFrame, instr_ptr),
#else
        .thread_frame = offsetof(PyThreadState, cframe),
        .is_indirect = 1,
        .cframe_frame = offsetof(_PyCFrame, current_frame),
        .frame_code = offsetof(_PyInterpreterFrame, f_code),
        .frame_instruction = offsetof(_PyInterpreterFrame, prev_instr),
#endif
#if PY_VERSION_HEX >= 0x030C0000
        .gil = (uint64_t)(uintptr_t)PyInterpreterState_Main()->ceval.gil,
#else
        .gil = (uint64_t)(uintptr_t)&_PyRuntime.ceval.gil,
#endif
    };
}

/* `watch/foreign.py` reads the number of threads that have begun there. */
_Static_assert(offsetof(PyInterpreterState, threads.head) ==
                   offsetof(PyInterpreterState, threads.next_unique_id) + 8,
               "before the first thread is their number");

PyObject *interpreter_layout(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    RemoteLayout layout;
    interpreter_fields(&layout);
    layout.code_type = layout.gil = 0;
#if PY_VERSION_HEX >= 0x030C0000
    size_t in_runtime = 0, in_interpreter = offsetof(PyInterpreterState, ceval.gil);
#else
    size_t in_runtime = offsetof(_PyRuntimeState, ceval.gil), in_interpreter = 0;
#endif
    return Py_BuildValue("y#nnnnn", &layout, (Py_ssize_t)sizeof layout,
                         (Py_ssize_t)offsetof(_PyRuntimeState, interpreters.main),
                         (Py_ssize_t)offsetof(PyInterpreterState, threads.head),
                         (Py_ssize_t)offsetof(PyThreadState, next), (Py_ssize_t)in_runtime,
                         (Py_ssize_t)in_interpreter);
}
#endif

static Block *described; /* in the current part; NULL: it is not */

void interpreter_describe(void)
{
    described = NULL;
#if PY_VERSION_HEX >= 0x030D0000
    /* Not Py_IsInitialized, which is false until `site`, where we start, is over (3.15). */
    if (PyThreadState_GetUnchecked() == NULL || Py_IsFinalizing())
        return;
#else
    if (!python_is_there())
        return;
#endif
    if (reader_pid > 0)
        prctl(PR_SET_PTRACER, (unsigned long)reader_pid, 0, 0, 0);
    described = part_block(part, BLOCK_INTERPRETER, 0, sizeof(RemoteLayout));
    if (described != NULL)
        interpreter_fields((RemoteLayout *)(void *)(described + 1));
}

void interpreter_threads(uint64_t count)
{
    if (described != NULL)
        __atomic_store_n(&described->unused[BLOCK_INTERPRETER_THREADS], count, __ATOMIC_RELEASE);
}
