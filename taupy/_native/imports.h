/* An import is a single row, "import torch"; the work of libraries inside it is not recorded.
 *
 * An import is open from the entry of importlib's `_find_and_load` to its return, for a module not
 * loaded yet; every form of import goes through that function. While the cursor is on the import's
 * node, only the program's own code is recorded below it: its modules, and functions that a library
 * calls back. Inside a routine of the program everything is recorded as usual, including further
 * imports. Imports made by a library are part of the open one.
 *
 * The program's own code is whatever is not in a library folder. Code not read from a file
 * (`<string>`) is the program's if its globals are those of `__main__`. */
#ifndef TAUPY_IMPORTS_H
#define TAUPY_IMPORTS_H

#include "routine.h"

void imports_start(void);
/* `_find_and_load` is called for this module; it returns, or raises. */
void import_entered(Thread *thread, Routine *routine, PyObject *name);
void import_left(Thread *thread, Routine *routine, uint64_t now);

#endif
