/* Whose code a file is: the program's, or that of a library; as `taupy/watch/own_files.py` says. */
#ifndef TAUPY_OWN_FILES_H
#define TAUPY_OWN_FILES_H

/* `folders`: of libraries, each ended by a slash. `names`: of what is no file but has code of the
 * program, such as `<string>`. Lists end with NULL, or are NULL. */
void own_files_start(char **folders, char **names);
int file_is_own(const char *file);

#endif
