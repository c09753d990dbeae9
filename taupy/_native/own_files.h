/* Whose code a file is: the program's, or that of a library. It knows paths only;
 * `analysis/own_code.py` decides for a trial, of which more is known. */
#ifndef TAUPY_OWN_FILES_H
#define TAUPY_OWN_FILES_H

/* Lists end with NULL, or are NULL. */
typedef struct OwnFiles {
    char **libraries; /* folders, each ended by a slash */
    char **texts;     /* what is no file but has code of the program, such as `<string>` */
} OwnFiles;

/* Whether a file, named as the interpreter does, is the program's. */
int file_is_own(const OwnFiles *own, const char *file);

/* Whether it is one of the import system. */
int file_imports(const char *file);

/* Of this process's program. */
extern OwnFiles program_files;

#endif
