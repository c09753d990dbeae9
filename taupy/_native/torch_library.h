// Shared by the libraries that instrument/torch_library.py compiles against the installed PyTorch.
#ifndef TAUPY_TORCH_LIBRARY_H
#define TAUPY_TORCH_LIBRARY_H

#include <ATen/record_function.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Whether this process runs the PyTorch this library was compiled for.
static inline bool is_ours()
{
    Dl_info library;
    char path[PATH_MAX];
    return dladdr(reinterpret_cast<void *>(&at::addGlobalCallback), &library) != 0 &&
           realpath(library.dli_fname, path) != nullptr && strcmp(path, TAUPY_LIBTORCH) == 0;
}

// The reason why the engine cannot use this library, or nullptr. `given` is the engine's version.
static inline const char *unusable(uint32_t given, uint32_t ours)
{
    if (given != ours)
        return "it is another version's";
    return is_ours() ? nullptr : "the program uses another PyTorch than the one that taupy found";
}

#endif
