/* While C calls are recorded, the interpreter would report the return of sys.setprofile to the
 * profile function that the program has just set, although that function never saw the call:
 * suppress that event. */
#ifndef TAUPY_SETPROFILE_H
#define TAUPY_SETPROFILE_H

void wrap_setprofile(void);

#endif
