// Tells the engine which node of autograd's graph is running; see autograd_host.h.
//
// Uses PyTorch's own callbacks, for backward nodes only: nodes and gradients are not touched, and
// nothing is visible from Python. Compiled by instrument/torch_library.py.
#include "autograd_host.h"
#include "torch_library.h"
#include <ATen/SequenceNumber.h>

static AutogradHost *host;

static std::unique_ptr<at::ObserverContext> node_begins(const at::RecordFunction &node)
{
    host->begins(node.name(), node.seqNr(), node.forwardThreadId());
    return nullptr;
}

static void node_ends(const at::RecordFunction &, at::ObserverContext *) { host->ends(); }

extern "C" __attribute__((visibility("default"))) const char *
taupy_autograd_begin(AutogradHost *given)
{
    if (const char *why = unusable(given->version, AUTOGRAD_HOST_VERSION))
        return why;
    host = given;
    host->sequence = at::sequence_number::peek;
    host->thread = at::RecordFunction::currentThreadId;
    at::addGlobalCallback(at::RecordFunctionCallback(node_begins, node_ends)
                              .scopes({at::RecordScope::BACKWARD_FUNCTION}));
    return nullptr;
}
