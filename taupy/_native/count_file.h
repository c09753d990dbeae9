/* The file of what was counted: text, a line a fact, its cells divided by tabs.
 *
 * Lines are written whole and at once, without a buffer: a forked child has nothing of its parent's
 * to flush, and what stands there outlives a kill. Any thread may write. The reader is
 * taupy/collectors/cupti_counters.py. */
#ifndef TAUPY_COUNT_FILE_H
#define TAUPY_COUNT_FILE_H

/* 0: it was made. */
int count_file_open(const char *path);

__attribute__((format(printf, 1, 2))) void count_file_line(const char *format, ...);

/* A line "what, name, text" whose text may hold anything. */
void count_file_text(const char *what, const char *name, const char *text);

/* In a forked child: the file is the parent's. */
void count_file_forget(void);

#endif
