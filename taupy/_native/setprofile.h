/* With C calls recorded, the interpreter would tell a profile function that the program sets of
 * the return of sys.setprofile, whose call it has not seen: that event is left out. */
#ifndef TAUPY_SETPROFILE_H
#define TAUPY_SETPROFILE_H

void wrap_setprofile(void);

#endif
