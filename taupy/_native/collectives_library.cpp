// Reports operations of PyTorch's process groups to the engine; see collectives_host.h.
//
// Uses PyTorch's callbacks for named ranges (RecordFunction): backends open one range per
// operation, on the thread that executes it. Groups are known by name: while somebody holds a weak
// reference to a backend, c10 does not run its destructor, which ends its threads. Compiled by
// instrument/torch_library.py.
#include "collectives_host.h"
#include "torch_library.h"
#include <atomic>
#include <deque>
#include <string.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

static CollectivesHost *host;

struct Open : at::ObserverContext {
    explicit Open(void *given) : operation(given) {}
    void *operation;
};

struct Group {
    Group(const char *given, const c10d::Backend *held) : name(given), backend(held) {}
    std::string name;
    const c10d::Backend *backend; // to compare with only
    std::atomic<bool> is_gone{false};
};

static std::deque<Group> &groups()
{
    static auto *held = new std::deque<Group>;
    return *held; // backend threads outlive static variables
}

static auto backend_of(const std::string &name)
{
    return c10d::resolve_process_group(name)->getBackend(c10::DeviceType::CPU);
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
        groups().emplace_back(name, backend_of(name).get());
        return static_cast<int>(groups().size()) - 1;
    } catch (const std::exception &) {
        return -1;
    }
}

static uint64_t asked(int group)
{
    Group &known = groups()[static_cast<size_t>(group)];
    if (known.is_gone)
        return UINT64_MAX;
    try {
        auto backend = backend_of(known.name);
        if (backend.get() == known.backend)
            return backend->getSequenceNumberForGroup();
    } catch (const std::exception &) {
    }
    known.is_gone = true; // an exception of PyTorch's takes long
    return UINT64_MAX;
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
