#define _GNU_SOURCE
#include "count_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int file = -1;

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
    line[size] = '\n'; /* in place of the zero byte */
    for (ssize_t done = 0, n; done <= size; done += n)
        if ((n = write(file, line + done, (size_t)(size + 1 - done))) < 0) {
            if (errno != EINTR)
                break; /* the disk is full: what stands there is read all the same */
            n = 0;
        }
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
