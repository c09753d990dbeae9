// Plays libtorch_cpu: numbers for nodes, and nodes that run when a test says so.
#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <atomic>

static thread_local uint64_t sequence = 0, thread_id = 0;
static std::atomic<uint64_t> threads{0};
static at::RecordFunctionCallback callback{nullptr, nullptr};

uint64_t at::sequence_number::peek() { return sequence; }

uint64_t at::RecordFunction::currentThreadId()
{
    return thread_id != 0 ? thread_id : thread_id = ++threads;
}

uint64_t at::addGlobalCallback(at::RecordFunctionCallback given)
{
    callback = given;
    return 1;
}

// How libc10 mentions std::string, by which its ABI is told.
extern "C" const char played_abi[] = "torchCheckFailEPKcS2_jRKNSt7__cxx11";

// The number of a node that is made now.
extern "C" int64_t played_make() { return sequence++; }

extern "C" void played_number(uint64_t next) { sequence = next; }

extern "C" uint64_t played_thread() { return at::RecordFunction::currentThreadId(); }

static void run(const char *name, int64_t number, uint64_t thread, void (*inside)())
{
    at::RecordFunction node{name, number, thread};
    if (callback.start == nullptr) {
        if (inside != nullptr)
            inside();
        return;
    }
    auto context = callback.start(node);
    if (inside != nullptr)
        inside();
    callback.end(node, context.get());
}

// Nodes run one after another; `inside`, if any, in each.
extern "C" void played_run(int count, const char **names, const int64_t *numbers,
                           const uint64_t *threads_of, void (*inside)())
{
    for (int i = 0; i < count; i++)
        run(names[i], numbers[i], threads_of[i], inside);
}
