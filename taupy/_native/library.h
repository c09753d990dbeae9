/* Loading the libraries for PyTorch that lie in the user's state folder.
 *
 * A library is loaded only with the content that it had when the run was launched, and through the
 * descriptor through which this was checked: what its path leads to by now does not matter. */
#ifndef TAUPY_LIBRARY_H
#define TAUPY_LIBRARY_H

/* Load it, and find its function `entry`; `checked` is its SHA-256 (64 digits), a blank, and its
 * path. Returns NULL on failure, with `problem` set. */
void *library_entry(const char *checked, const char *entry, const char **problem);

#endif
