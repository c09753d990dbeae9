/* See own_files.h. */
#include "own_files.h"
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define IMPORTING "<frozen importlib"

OwnFiles program_files;

static int begins(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* Whether a file is in a standard library: `/usr/lib/python3.12/json/...`. */
static int is_below(const char *file, const char *folder)
{
    const char *at = strstr(file, folder);
    if (at == NULL)
        return 0;
    const char *version = at + strlen(folder), *end = version;
    while (isdigit((unsigned char)*end))
        end++;
    return end > version && (*end == '/' || (*end == 't' && end[1] == '/'));
}

/* Whether torch.compile has written it: `7g/c7gvcp...py`, named by a hash of its text. */
static int is_compiled(const char *file)
{
    const char *slash = strrchr(file, '/'), *name = slash == NULL ? file : slash + 1;
    return name[0] == 'c' && strspn(name + 1, "abcdefghijklmnopqrstuvwxyz234567") == 51 &&
           strcmp(name + 52, ".py") == 0;
}

int file_is_own(const OwnFiles *own, const char *file)
{
    if (file[0] == 0 || file[0] == '<') {
        for (char **text = own->texts; text != NULL && *text != NULL; text++)
            if (strcmp(file, *text) == 0)
                return 1;
        return begins(file, "<ipython-input");
    }
    for (char **folder = own->libraries; folder != NULL && *folder != NULL; folder++)
        if (begins(file, *folder))
            return 0;
    return strstr(file, "/site-packages/") == NULL && strstr(file, "/dist-packages/") == NULL &&
           !is_compiled(file) && !is_below(file, "/lib/python3.") && !is_below(file, "/lib64/python3.");
}

int file_imports(const char *file) { return begins(file, IMPORTING); }
