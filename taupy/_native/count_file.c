#define _GNU_SOURCE
#include "count_file.h"
#include "append.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int file = -1;
static int is_full; /* file size limit or full disk: existing lines remain valid; atomic */

int count_file_open(const char *path)
{
    file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    return file < 0 ? -1 : 0;
}

void count_file_line(const char *format, ...)
{
    char *line = NULL;
    va_list arguments;
    va_start(arguments, format);
    int size = vasprintf(&line, format, arguments);
    va_end(arguments);
    if (size < 0 || file < 0) {
        free(size < 0 ? NULL : line);
        return;
    }
    line[size] = '\n'; /* replaces the NUL */
    /* A failed write may have left part of a line, which the next line would be appended to. */
    if (!__atomic_load_n(&is_full, __ATOMIC_RELAXED) &&
        append_whole(file, line, (size_t)size + 1, NULL, 0) != 0)
        __atomic_store_n(&is_full, 1, __ATOMIC_RELAXED);
    free(line);
}

void count_file_text(const char *what, const char *name, const char *text)
{
    char *plain = strdup(text);
    for (char *c = plain; c != NULL && *c != 0; c++)
        if (*c == '\t' || *c == '\n')
            *c = ' ';
    count_file_line("%s\t%s\t%s", what, name, plain != NULL ? plain : "");
    free(plain);
}

void count_file_forget(void)
{
    if (file >= 0)
        close(file);
    file = -1;
}
