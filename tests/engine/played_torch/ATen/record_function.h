// As far as taupy needs PyTorch's header of this name.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>
namespace at {
enum class RecordScope { FUNCTION, BACKWARD_FUNCTION, USER_SCOPE };
struct Tensor {
    uint64_t bytes_;
    bool defined() const { return true; }
    bool is_sparse() const { return false; }
    uint64_t nbytes() const { return bytes_; }
};
}
namespace c10 {
struct IValue {
    at::Tensor tensor;
    bool isTensor() const { return true; }
    bool isTensorList() const { return false; }
    const at::Tensor &toTensor() const { return tensor; }
    std::vector<at::Tensor> toTensorVector() const { return {tensor}; }
};
}
namespace at {
struct ObserverContext {
    virtual ~ObserverContext() = default;
};
struct RecordFunction {
    const char *name_;
    int64_t sequence_;
    uint64_t thread_;
    std::vector<c10::IValue> inputs_;
    const std::vector<c10::IValue> &inputs() const { return inputs_; }
    uint64_t threadId() const { return thread_; }
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
    RecordScope scope = RecordScope::FUNCTION;
    RecordFunctionCallback(Start start, End end) : start(start), end(end) {}
    RecordFunctionCallback &scopes(std::initializer_list<RecordScope> given)
    {
        scope = *given.begin();
        return *this;
    }
};
uint64_t addGlobalCallback(RecordFunctionCallback);
}
