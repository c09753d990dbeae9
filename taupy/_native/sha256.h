/* SHA-256 (FIPS 180-4), used to identify contents: a module's hash names its saved file and links
 * its kernels to their code. */
#ifndef TAUPY_SHA256_H
#define TAUPY_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

void sha256(const void *bytes, size_t size, uint8_t digest[SHA256_BYTES]);

#endif
