// Reports operations of PyTorch's process groups to the engine; see collectives_host.h.
//
// Uses PyTorch's callbacks for named ranges (RecordFunction): backends open one range per
// operation, on the thread that executes it. Groups are held by weak references. Compiled by
// instrument/torch_library.py.
#include "collectives_host.h"
#include "torch_library.h"
#include <string.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <vector>

static CollectivesHost *host;

struct Open : at::ObserverContext {
    explicit Open(void *given) : operation(given) {}
    void *operation;
};

static std::vector<c10::weak_intrusive_ptr<c10d::Backend>> &backends()
{
    static auto *held = new std::vector<c10::weak_intrusive_ptr<c10d::Backend>>;
    return *held; // backend threads outlive static variables
}

// NCCL operations end on the host long before they begin on the GPU.
static bool is_operation(const char *name)
{
    return strncmp(name, "gloo:", 5) == 0 || strncmp(name, "mpi:", 4) == 0 ||
           strncmp(name, "ucc:", 4) == 0;
}

static uint64_t bytes_of(const c10::IValue &value)
{
    uint64_t bytes = 0;
    if (value.isTensor() && value.toTensor().defined() && !value.toTensor().is_sparse())
        bytes = value.toTensor().nbytes();
    else if (value.isTensorList())
        for (const at::Tensor &tensor : value.toTensorVector())
            if (tensor.defined() && !tensor.is_sparse())
                bytes += tensor.nbytes();
    return bytes;
}

static std::unique_ptr<at::ObserverContext> range_begins(const at::RecordFunction &range)
{
    if (!is_operation(range.name()))
        return nullptr;
    uint64_t bytes = 0;
    for (const c10::IValue &input : range.inputs())
        bytes += bytes_of(input);
    void *operation = host->begins(range.name(), range.threadId(), bytes);
    return operation == nullptr ? nullptr : std::make_unique<Open>(operation);
}

static void range_ends(const at::RecordFunction &, at::ObserverContext *context)
{
    if (context != nullptr)
        host->ends(static_cast<Open *>(context)->operation);
}

static int group(const char *name)
{
    try {
        auto backend = c10d::resolve_process_group(name)->getBackend(c10::DeviceType::CPU);
        backends().emplace_back(backend);
        return static_cast<int>(backends().size()) - 1;
    } catch (const std::exception &) {
        return -1;
    }
}

static uint64_t asked(int group)
{
    try {
        auto backend = backends()[static_cast<size_t>(group)].lock();
        return backend ? backend->getSequenceNumberForGroup() : UINT64_MAX;
    } catch (const std::exception &) {
        return UINT64_MAX;
    }
}

extern "C" __attribute__((visibility("default"))) const char *
taupy_collectives_begin(CollectivesHost *given)
{
    if (const char *why = unusable(given->version, COLLECTIVES_HOST_VERSION))
        return why;
    host = given;
    host->thread = at::RecordFunction::currentThreadId;
    host->group = group;
    host->asked = asked;
    at::addGlobalCallback(at::RecordFunctionCallback(range_begins, range_ends)
                              .scopes({at::RecordScope::USER_SCOPE}));
    return nullptr;
}
