// As far as taupy needs PyTorch's header of this name.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
namespace at {
enum class RecordScope { FUNCTION, BACKWARD_FUNCTION };
struct ObserverContext {
    virtual ~ObserverContext() = default;
};
struct RecordFunction {
    const char *name_;
    int64_t sequence_;
    uint64_t thread_;
    const char *name() const { return name_; }
    int64_t seqNr() const { return sequence_; }
    uint64_t forwardThreadId() const { return thread_; }
    static uint64_t currentThreadId();
};
struct RecordFunctionCallback {
    using Start = std::unique_ptr<ObserverContext> (*)(const RecordFunction &);
    using End = void (*)(const RecordFunction &, ObserverContext *);
    Start start;
    End end;
    RecordFunctionCallback(Start start, End end) : start(start), end(end) {}
    RecordFunctionCallback &scopes(std::initializer_list<RecordScope>) { return *this; }
};
uint64_t addGlobalCallback(RecordFunctionCallback);
}
