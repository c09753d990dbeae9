/* The file of counts: text, one fact per line, with tab-separated cells.
 *
 * Each line is written with a single unbuffered write: a forked child has nothing of its parent's
 * to flush, and whatever is in the file survives a kill. Any thread may write. The reader is
 * taupy/collectors/cupti_counters.py. */
#ifndef TAUPY_COUNT_FILE_H
#define TAUPY_COUNT_FILE_H

/* Returns 0 if the file was created. */
int count_file_open(const char *path);

__attribute__((format(printf, 1, 2))) void count_file_line(const char *format, ...);

/* Write a line "what, name, text"; the text may contain anything. */
void count_file_text(const char *what, const char *name, const char *text);

/* In a forked child: the file is the parent's. */
void count_file_forget(void);

#endif
