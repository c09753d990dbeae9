#include "nvtx_sources.h"
#include <string.h>

enum { PAYLOADS = 2, SCHEMA_REGISTER = 0 };            /* of the extension, and its function */
enum { HAS_ENTRIES = 1 << 4, HAS_NUMBER = 1 << 5, HAS_ID = 1 << 8 }; /* of a schema's fields */

#define REGISTERED_STRING 80
#define NOT_ONE_VALUE 0x1ffe /* flags of entries: pointers, arrays and the like */
#define FIRST_ID (1ull << 32) /* of schemas that do not choose theirs */
#define SCHEMAS_AT_MOST 64

typedef struct Entry {
    uint64_t flags, type;
    const char *name, *description;
    uint64_t detail, offset;
    const void *semantics, *reserved;
} Entry;
_Static_assert(sizeof(Entry) == 64, "nvtxPayloadSchemaEntry_t");

typedef struct Schema {
    uint64_t fields;
    const char *name;
    uint64_t type, flags;
    const Entry *entries;
    size_t entries_count, payload_size, alignment;
    uint64_t id;
} Schema; /* the beginning of nvtxPayloadSchemaAttr_t */

typedef struct Known {
    uint64_t id, offset;
} Known;

static Known known[SCHEMAS_AT_MOST];
static uint64_t known_count; /* atomic; one below it is complete once its `id` is not 0 */
static uint64_t ids;         /* atomic */

static uint64_t schema_register(void *domain, const Schema *schema)
{
    (void)domain;
    if (schema == NULL)
        return 0;
    uint64_t id = schema->fields & HAS_ID ? schema->id
                                          : FIRST_ID + __atomic_fetch_add(&ids, 1, __ATOMIC_RELAXED);
    if (!(schema->fields & HAS_ENTRIES) || !(schema->fields & HAS_NUMBER) || schema->entries == NULL)
        return id;
    for (size_t i = 0; i < schema->entries_count; i++) {
        const Entry *entry = &schema->entries[i];
        if (entry->type != REGISTERED_STRING || entry->flags & NOT_ONE_VALUE || entry->name == NULL ||
            strcmp(entry->name, "Source locations") != 0)
            continue;
        uint64_t place = __atomic_fetch_add(&known_count, 1, __ATOMIC_RELAXED);
        if (place < SCHEMAS_AT_MOST) {
            known[place].offset = entry->offset;
            __atomic_store_n(&known[place].id, id, __ATOMIC_RELEASE);
        }
        break;
    }
    return id;
}

int nvtx_sources_take(NvtxExtension *extension)
{
    if (extension == NULL || extension->module != PAYLOADS || extension->segments_count == 0 ||
        extension->segments[0].slots_count <= SCHEMA_REGISTER)
        return 0;
    extension->segments[0].slots[SCHEMA_REGISTER] = (intptr_t)schema_register;
    return 1;
}

const char *nvtx_source(const NvtxPayload *payloads, size_t count)
{
    uint64_t schemas = __atomic_load_n(&known_count, __ATOMIC_RELAXED);
    for (size_t i = 0; payloads != NULL && i < count; i++)
        for (size_t at = 0; at < schemas && at < SCHEMAS_AT_MOST; at++) {
            uint64_t id = __atomic_load_n(&known[at].id, __ATOMIC_ACQUIRE);
            const char *text;
            if (id == 0 || id != payloads[i].schema || payloads[i].bytes == NULL ||
                payloads[i].size < sizeof text || known[at].offset > payloads[i].size - sizeof text)
                continue;
            memcpy(&text, (const char *)payloads[i].bytes + known[at].offset, sizeof text);
            return text;
        }
    return NULL;
}
