// Plays libtorch_cpu: numbers for nodes, and nodes that run when a test says so.
#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

static thread_local uint64_t sequence = 0, thread_id = 0;
static std::atomic<uint64_t> threads{0};
static at::RecordFunctionCallback callback{nullptr, nullptr}, ranges{nullptr, nullptr};

uint64_t at::sequence_number::peek() { return sequence; }

uint64_t at::RecordFunction::currentThreadId()
{
    return thread_id != 0 ? thread_id : thread_id = ++threads;
}

uint64_t at::addGlobalCallback(at::RecordFunctionCallback given)
{
    (given.scope == at::RecordScope::USER_SCOPE ? ranges : callback) = given;
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
    at::RecordFunction node{name, number, thread, {}};
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

// ---- groups of processes: each has threads that work at what it was asked for

struct Asked {
    std::string name;
    uint64_t asker, bytes;
};

struct Group : c10d::Backend {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Asked> queue;
    uint64_t asked = 0, done = 0;
    bool is_held = false;

    uint64_t getSequenceNumberForGroup() override
    {
        std::lock_guard<std::mutex> guard(mutex);
        return asked;
    }
    void work();
};

static std::atomic<int> begun{0};

extern "C" int played_begun() { return begun; }

static void work_at(const Asked &one)
{
    at::RecordFunction range{one.name.c_str(), -1, one.asker, {}};
    if (one.bytes > 0)
        range.inputs_.push_back({{one.bytes}});
    if (ranges.start == nullptr)
        return;
    auto context = ranges.start(range);
    begun++;
    // One that waits for a rank which never comes; one that gives nothing takes no time.
    if (one.name == "gloo:stuck")
        std::this_thread::sleep_for(std::chrono::hours(1));
    else if (one.bytes > 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ranges.end(range, context.get());
}

void Group::work()
{
    std::unique_lock<std::mutex> guard(mutex);
    for (;;) {
        changed.wait(guard, [this] { return !queue.empty() && !is_held; });
        Asked one = queue.front();
        queue.pop_front();
        guard.unlock();
        work_at(one);
        guard.lock();
        done++;
        changed.notify_all();
    }
}

static std::map<std::string, std::shared_ptr<c10d::ProcessGroup>> &groups()
{
    static auto *held = new std::map<std::string, std::shared_ptr<c10d::ProcessGroup>>;
    return *held;
}

static Group &group_of(const char *name)
{
    return static_cast<Group &>(*groups().at(name)->backend);
}

std::shared_ptr<c10d::ProcessGroup> c10d::resolve_process_group(const std::string &name)
{
    if (groups().count(name) == 0)
        throw std::runtime_error("there is no such group");
    return groups()[name];
}

extern "C" void played_group(const char *name)
{
    auto group = std::make_shared<c10d::ProcessGroup>();
    auto backend = std::make_shared<Group>();
    group->backend = backend;
    groups()[name] = group;
    std::thread([backend] { backend->work(); }).detach();
}

// Ask for an operation; between two processes it is done at once.
extern "C" void played_ask(const char *group, const char *name, uint64_t bytes)
{
    Group &asked = group_of(group);
    Asked one{name, at::RecordFunction::currentThreadId(), bytes};
    bool is_pair = one.name == "gloo:send" || one.name == "gloo:recv";
    {
        std::lock_guard<std::mutex> guard(asked.mutex);
        asked.asked++;
        if (!is_pair)
            asked.queue.push_back(one);
        else
            asked.done++;
    }
    if (is_pair)
        work_at(one);
    asked.changed.notify_all();
}

// Work at nothing more, or again.
extern "C" void played_hold(const char *group, int is_held)
{
    std::lock_guard<std::mutex> guard(group_of(group).mutex);
    group_of(group).is_held = is_held != 0;
    group_of(group).changed.notify_all();
}

extern "C" void played_wait(const char *group)
{
    Group &asked = group_of(group);
    std::unique_lock<std::mutex> guard(asked.mutex);
    asked.changed.wait(guard, [&asked] { return asked.done == asked.asked; });
}
