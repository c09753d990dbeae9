/* Libraries that are in this process, found by their names. */
#ifndef TAUPY_MAPPED_H
#define TAUPY_MAPPED_H

typedef struct Mapped {
    const char *prefix;
    char path[4096];
} Mapped;

/* Path of a library in this process whose file name begins with the prefix; 0 if there is none. */
int find_mapped(const char *prefix, Mapped *found);

/* The same library, opened; NULL if there is none. It is opened after the search, not within: a
 * search holds a lock that a thread which loads a library takes second. */
void *open_mapped(const char *prefix);

#endif
