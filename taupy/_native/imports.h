/* An import is one row, "import torch": what libraries do inside it is not recorded.
 *
 * An import is open from the entry of importlib's `_find_and_load` to its return, for a module
 * that is not there yet; all ways of importing come there. While the cursor stands on the
 * import's node, only the program's own code is recorded, below that node: its modules, and what
 * a library calls back. In a routine of the program's everything is recorded as ever, further
 * imports, too. The imports that a library makes are part of the one that is open.
 *
 * The program's own is what does not lie in a folder of libraries. Code that was not read from
 * a file (`<string>`) is the program's if it has the names of `__main__`.
 *
 * Millions of calls come by here: the file of a code object is looked at once. */
#ifndef TAUPY_IMPORTS_H
#define TAUPY_IMPORTS_H

#include "routine.h"

extern char **library_folders; /* each with a `/` at its end; NULL: imports are recorded whole */

void imports_start(void);
/* `_find_and_load` is called for this module; it returns, or an exception leaves it. */
void import_entered(Thread *thread, Routine *routine, PyObject *name);
void import_left(Thread *thread, Routine *routine, uint64_t now);

#endif
