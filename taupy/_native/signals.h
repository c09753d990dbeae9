/* Signals that the program sends.
 *
 * A server that ends its work at SIGTERM often restores the default action and sends the signal to
 * itself again, so that its parent sees what ended it. Nothing runs afterwards: the part is closed
 * and the run is stored before, as at os._exit. Signals that end other processes are noted, as
 * metadata of the part, `taupy.stopped.PID`, since the kernel may not tell how these ended. */
#ifndef TAUPY_SIGNALS_H
#define TAUPY_SIGNALS_H

/* Wrap the functions that send signals. */
void wrap_signals(void);

#endif
