#include "gpu_names.h"
#include <stdlib.h>
#include <string.h>

static uint64_t pointer_hash(const char *pointer)
{
    return (uint64_t)pointer * 0x9E3779B97F4A7C15ull >> 24;
}

static uint64_t text_hash(const char *text)
{
    uint64_t hash = 14695981039346656037ull;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211ull;
    return hash ^ hash >> 32;
}

int kernel_names_begin(KernelNames *names, PartHeader *part)
{
    *names = (KernelNames){.part = part, .mask = 1023, .texts_mask = 1023, .next = 1};
    names->by_pointer = calloc(names->mask + 1, sizeof *names->by_pointer);
    names->texts = calloc(names->texts_mask + 1, sizeof *names->texts);
    return names->by_pointer != NULL && names->texts != NULL ? 0 : -1;
}

static Name *name_by_text(KernelNames *names, const char *text)
{
    uint64_t hash = text_hash(text), i = hash & names->texts_mask;
    for (; names->texts[i].text != NULL; i = (i + 1) & names->texts_mask)
        if (names->texts[i].hash == hash && strcmp(names->texts[i].text, text) == 0)
            return &names->texts[i];
    if (names->texts_count * 2 > names->texts_mask) {
        uint64_t mask = names->texts_mask * 2 + 1;
        Name *more = calloc(mask + 1, sizeof *more);
        if (more == NULL)
            return NULL;
        for (uint64_t k = 0; k <= names->texts_mask; k++)
            if (names->texts[k].text != NULL) {
                uint64_t j = names->texts[k].hash & mask;
                while (more[j].text != NULL)
                    j = (j + 1) & mask;
                more[j] = names->texts[k];
            }
        free(names->texts);
        names->texts = more;
        names->texts_mask = mask;
        for (i = hash & mask; more[i].text != NULL; i = (i + 1) & mask)
            ;
    }
    char *copy = strdup(text);
    if (copy == NULL || gpu_part_text(names->part, GPU_NAME, names->next, text) == NULL) {
        free(copy);
        return NULL;
    }
    names->texts_count++;
    names->texts[i] = (Name){NULL, hash, names->next++, copy};
    return &names->texts[i];
}

/* Equal pointers nearly always mean equal names, but the addresses of an unloaded module may be
 * reused: compare the text. */
uint32_t kernel_name(KernelNames *names, const char *pointer)
{
    if (pointer == NULL)
        return 0;
    uint64_t i = pointer_hash(pointer) & names->mask;
    for (; names->by_pointer[i].pointer != NULL; i = (i + 1) & names->mask)
        if (names->by_pointer[i].pointer == pointer) {
            if (strcmp(names->by_pointer[i].text, pointer) == 0)
                return names->by_pointer[i].id;
            break;
        }
    Name *known = name_by_text(names, pointer);
    if (known == NULL)
        return 0;
    if (names->by_pointer[i].pointer == NULL && names->count * 2 > names->mask) {
        if (names->mask >= (1u << 20)) { /* pointers that keep changing */
            memset(names->by_pointer, 0, (names->mask + 1) * sizeof *names->by_pointer);
            names->count = 0;
        } else {
            uint64_t mask = names->mask * 2 + 1;
            Name *more = calloc(mask + 1, sizeof *more);
            if (more == NULL)
                return known->id;
            for (uint64_t k = 0; k <= names->mask; k++)
                if (names->by_pointer[k].pointer != NULL) {
                    uint64_t j = pointer_hash(names->by_pointer[k].pointer) & mask;
                    while (more[j].pointer != NULL)
                        j = (j + 1) & mask;
                    more[j] = names->by_pointer[k];
                }
            free(names->by_pointer);
            names->by_pointer = more;
            names->mask = mask;
        }
        i = pointer_hash(pointer) & names->mask;
        while (names->by_pointer[i].pointer != NULL)
            i = (i + 1) & names->mask;
    }
    names->count += names->by_pointer[i].pointer == NULL;
    names->by_pointer[i] = (Name){pointer, 0, known->id, known->text};
    return known->id;
}
