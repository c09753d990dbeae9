/* Source locations in the payloads of NVTX ranges: XLA attaches to each operation the Python frames
 * inside the jitted function that it was made from.
 *
 * NVTX's header calls InitializeInjectionNvtxExtension when a library registers its first schema of
 * payloads. A schema that has the entry "Source locations", a registered string, is kept. */
#ifndef TAUPY_NVTX_SOURCES_H
#define TAUPY_NVTX_SOURCES_H

#include <stddef.h>
#include <stdint.h>

#define NVTX_PAYLOAD_EXTENDED ((int32_t)0xdfbd0009) /* a payload that points to NvtxPayload[] */

typedef struct NvtxPayload {
    uint64_t schema;
    size_t size;
    const void *bytes;
} NvtxPayload;

typedef struct NvtxExtension {
    uint16_t version, size, module, compatible;
    size_t segments_count;
    struct NvtxSegment {
        size_t id, slots_count;
        intptr_t *slots;
    } *segments;
} NvtxExtension; /* the beginning of nvtxExtModuleInfo_t */

/* From now on, be told of the schemas of this extension. Zero: it is another one. */
int nvtx_sources_take(NvtxExtension *extension);

/* The source locations among `count` payloads, a string that lives as long as the process; NULL if
 * there are none. */
const char *nvtx_source(const NvtxPayload *payloads, size_t count);

#endif
