/* See own_files.h. */
#include "own_files.h"
#include <stddef.h>
#include <string.h>

static char **libraries, **texts;

void own_files_start(char **folders, char **names)
{
    libraries = folders;
    texts = names;
}

static int begins_with(const char *text, char **beginnings)
{
    for (; beginnings != NULL && *beginnings != NULL; beginnings++)
        if (strncmp(text, *beginnings, strlen(*beginnings)) == 0)
            return 1;
    return 0;
}

int file_is_own(const char *file)
{
    if (file[0] == 0)
        return 0;
    if (file[0] == '<')
        return begins_with(file, texts) || strncmp(file, "<ipython-input", 14) == 0;
    return !begins_with(file, libraries) &&
           strstr(file, "/site-packages/") == NULL && strstr(file, "/dist-packages/") == NULL;
}
