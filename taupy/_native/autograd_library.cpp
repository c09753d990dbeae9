// Tells the engine which node of autograd's graph runs; see autograd_host.h.
//
// A callback of PyTorch's own, for nodes alone: they and their gradients are not touched, and
// nothing of it is to be seen from Python. Compiled by instrument/torch_library.py.
#include "autograd_host.h"
#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static AutogradHost *host;

static std::unique_ptr<at::ObserverContext> node_begins(const at::RecordFunction &node)
{
    host->begins(node.name(), node.seqNr(), node.forwardThreadId());
    return nullptr;
}

static void node_ends(const at::RecordFunction &, at::ObserverContext *) { host->ends(); }

// Is the PyTorch of this process the one that this was compiled for?
static bool is_ours()
{
    Dl_info found;
    char path[PATH_MAX];
    return dladdr(reinterpret_cast<void *>(&at::addGlobalCallback), &found) != 0 &&
           realpath(found.dli_fname, path) != nullptr && strcmp(path, TAUPY_LIBTORCH) == 0;
}

extern "C" __attribute__((visibility("default"))) const char *
taupy_autograd_begin(AutogradHost *given)
{
    if (given->version != AUTOGRAD_HOST_VERSION)
        return "it is another version's";
    if (!is_ours())
        return "the program uses another PyTorch than the one that taupy found";
    host = given;
    host->sequence = at::sequence_number::peek;
    host->thread = at::RecordFunction::currentThreadId;
    at::addGlobalCallback(at::RecordFunctionCallback(node_begins, node_ends)
                              .scopes({at::RecordScope::BACKWARD_FUNCTION}));
    return nullptr;
}
