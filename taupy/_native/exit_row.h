/* What passes after the program's last line: the row `exit` of its main thread.
 *
 * The program is the first routine of the main thread that none has called. Once it has returned,
 * whatever the interpreter calls there is part of the exit (atexit functions, threads that are
 * waited for), and so is the time between (destructors of modules and libraries). The row begins
 * where the program ended, in hindsight: nothing is done for it before something is entered outside
 * the program, or Python ends. */
#ifndef TAUPY_EXIT_ROW_H
#define TAUPY_EXIT_ROW_H

#include "listeners.h"

extern Listener exit_row_listener;

/* `is_program`: the engine was started before the program, and sees it begin. */
void exit_row_start(int is_program);
/* Python has ended. */
void exit_row_end(void);

#endif
