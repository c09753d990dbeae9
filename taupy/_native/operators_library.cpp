// Tells of PyTorch's operators, and counts their floating-point operations; see operators_host.h.
//
// Both with PyTorch's own callbacks (RecordFunction): one that only hears when an operator begins
// and ends, and one that sees the sizes of its arguments while a step is counted, and is removed
// otherwise. If an operator has a formula, operators it calls are not
// counted separately. Formulas are those of torch.utils.flop_counter: a multiply-add is two
// operations, and only matrix products, convolutions, attention and recurrent networks have a
// formula. Compiled by instrument/torch_library.py.
#include "operators_host.h"
#include "torch_library.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/CPUAllocator.h>
#include <string>
#include <torch/csrc/autograd/python_variable.h>
#include <unordered_map>
#include <unordered_set>

namespace {

OperatorsHost *host;
at::CallbackHandle handle = 0;
constexpr int64_t UNKNOWN = OPERATOR_UNKNOWN, UNSIZED = OPERATOR_UNSIZED;

using Sizes = at::IntArrayRef;

// ------------------------------------------------------------------ arguments

// Whether its sizes can be read directly, without involving any class of the program.
bool is_plain(const at::Tensor &tensor)
{
    return tensor.defined() && tensor.layout() == at::kStrided &&
           !tensor.unsafeGetTensorImpl()->is_python_dispatch() &&
           !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

// Whether it only stands for other tensors, or for none: those of torch.func, of a tracer, of a class
// of the program, without data. Operators on it compute nothing themselves: those on the tensors
// inside do, which it calls with their true sizes.
bool is_wrapper(const at::Tensor &tensor)
{
    using c10::DispatchKey;
    const c10::TensorImpl *inside = tensor.unsafeGetTensorImpl();
    return tensor.defined() &&
           (inside->is_python_dispatch() || inside->has_symbolic_sizes_strides() ||
            inside->is_meta() ||
            inside->key_set().has_any(c10::DispatchKeySet(
                {DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchGradWrapper,
                 DispatchKey::Functionalize})));
}

bool has_wrapper(const c10::IValue &value)
{
    if (value.isTensor())
        return is_wrapper(value.toTensor());
    if (value.isTensorList())
        for (const at::Tensor &each : value.toTensorVector())
            if (is_wrapper(each))
                return true;
    return false;
}

struct Unusual {};

struct Arguments {
    c10::ArrayRef<const c10::IValue> values;

    const c10::IValue &at(size_t index) const
    {
        if (index >= values.size())
            throw Unusual();
        return values[index];
    }
    Sizes tensor(size_t index) const
    {
        const c10::IValue &value = at(index);
        if (!value.isTensor() || !is_plain(value.toTensor()))
            throw Unusual();
        return value.toTensor().sizes();
    }
    int64_t size(size_t index, int64_t dimension) const
    {
        Sizes sizes = tensor(index);
        int64_t place = dimension < 0 ? (int64_t)sizes.size() + dimension : dimension;
        if (place < 0 || place >= (int64_t)sizes.size())
            throw Unusual();
        return sizes[place];
    }
    int64_t items(size_t index) const
    {
        int64_t product = 1;
        for (int64_t size : tensor(index))
            product *= size;
        return product;
    }
};

// ------------------------------------------------------------------ formulas

// Product of matrices or batches of matrices; `first` is the index of the left operand.
template <size_t first> int64_t product(const Arguments &given)
{
    return 2 * given.items(first) * given.size(first + 1, -1);
}

// Matrix times vector, or the dot product of two vectors.
template <size_t first> int64_t of_vector(const Arguments &given)
{
    return 2 * given.items(first);
}

// input, weight, bias, stride, padding, dilation, transposed; `grid`: the tensor whose elements the
// filter is applied at: the output or, if transposed, the input.
int64_t moved(const Arguments &given, size_t grid, size_t weight)
{
    return 2 * given.items(grid) * (given.items(weight) / std::max<int64_t>(1, given.size(weight, 0)));
}

int64_t convolution(const Arguments &given)
{
    if (given.at(6).toBool())
        return moved(given, 0, 1);
    Sizes input = given.tensor(0), weight = given.tensor(1);
    const auto stride = given.at(3).toIntVector(), padding = given.at(4).toIntVector(),
               dilation = given.at(5).toIntVector();
    int64_t places = input.size() == weight.size() ? input[0] : 1;
    size_t last = weight.size() - 2, shift = input.size() - last;
    for (size_t i = 0; i < last; i++) {
        auto of = [i](const std::vector<int64_t> &each) { return each.at(each.size() > 1 ? i : 0); };
        int64_t reach = of(dilation) * (weight[i + 2] - 1) + 1;
        places *= (input[i + shift] + 2 * of(padding) - reach) / of(stride) + 1;
    }
    return 2 * places * given.items(1);
}

// gradient, input, weight, bias sizes, stride, padding, dilation, transposed, output padding,
// groups, which gradients are wanted: each costs as much as the forward pass.
int64_t convolution_backward(const Arguments &given)
{
    const auto wanted = given.at(10).toBoolList();
    int64_t once = moved(given, given.at(7).toBool() ? 1 : 0, 2);
    return once * ((int64_t)wanted.get(0) + (int64_t)wanted.get(1));
}

// query, key, value from index `first` on; the number of products with the keys and with the
// values.
int64_t attention(const Arguments &given, size_t first, int64_t keys, int64_t values)
{
    int64_t width = given.size(first, -1), rows = given.items(first) / std::max<int64_t>(1, width);
    int64_t length = given.size(first + 1, -2);
    return 2 * rows * length * (keys * width + values * given.size(first + 2, -1));
}

int64_t attention_forward(const Arguments &given) { return attention(given, 0, 1, 1); }
// Recomputes what the forward pass did not keep.
int64_t attention_backward(const Arguments &given) { return attention(given, 1, 3, 2); }

int64_t matrices(const c10::IValue &parameters)
{
    int64_t items = 0;
    for (const at::Tensor &each : parameters.toTensorVector())
        items += is_plain(each) && each.dim() == 2 ? each.numel() : 0;
    return items;
}

// input, states, parameters; or, for packed sequences: data, sizes, states, parameters. Every
// matrix multiplies every row.
int64_t recurrent(const Arguments &given)
{
    size_t parameters = given.at(3).isTensorList() ? 3 : 2;
    int64_t rows = given.items(0) / std::max<int64_t>(1, given.size(0, -1));
    return 2 * rows * matrices(given.at(parameters));
}

// For oneDNN: input, then the weights of one layer and direction. Both gradients are computed.
int64_t recurrent_backward(const Arguments &given)
{
    int64_t rows = given.items(0) / std::max<int64_t>(1, given.size(0, -1));
    return 4 * rows * (given.items(1) + given.items(2));
}

// For cuDNN: input, parameters.
int64_t cudnn_recurrent_backward(const Arguments &given)
{
    int64_t rows = given.items(0) / std::max<int64_t>(1, given.size(0, -1));
    return 4 * rows * matrices(given.at(1));
}

using Formula = int64_t (*)(const Arguments &);

const std::unordered_map<std::string, Formula> &formulas()
{
    static const std::unordered_map<std::string, Formula> all = {
        {"aten::mm", product<0>},
        {"aten::_int_mm", product<0>},
        {"aten::_scaled_mm", product<0>},
        {"aten::bmm", product<0>},
        {"aten::addmm", product<1>},
        {"aten::_addmm_activation", product<1>},
        {"aten::baddbmm", product<1>},
        {"aten::addbmm", product<1>},
        {"aten::mv", of_vector<0>},
        {"aten::dot", of_vector<0>},
        {"aten::vdot", of_vector<0>},
        {"aten::addmv", of_vector<1>},
        {"aten::convolution", convolution},
        {"aten::_convolution", convolution},
        {"aten::convolution_overrideable", convolution},
        {"aten::convolution_backward", convolution_backward},
        {"aten::scaled_dot_product_attention", attention_forward},
        {"aten::_scaled_dot_product_flash_attention", attention_forward},
        {"aten::_scaled_dot_product_flash_attention_for_cpu", attention_forward},
        {"aten::_scaled_dot_product_efficient_attention", attention_forward},
        {"aten::_scaled_dot_product_cudnn_attention", attention_forward},
        {"aten::_scaled_dot_product_flash_attention_backward", attention_backward},
        {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
        {"aten::_scaled_dot_product_efficient_attention_backward", attention_backward},
        {"aten::_scaled_dot_product_cudnn_attention_backward", attention_backward},
        {"aten::lstm", recurrent},
        {"aten::gru", recurrent},
        {"aten::rnn_tanh", recurrent},
        {"aten::rnn_relu", recurrent},
        {"aten::mkldnn_rnn_layer_backward", recurrent_backward},
        {"aten::_cudnn_rnn_backward", cudnn_recurrent_backward},
    };
    return all;
}

// False for operators that only create, move or inspect tensors.
bool computes(const char *name)
{
    static const std::unordered_set<std::string> moves = {
        "_local_scalar_dense", "_reshape_alias",  "_to_copy",       "_unsafe_view",
        "alias",               "arange",          "as_strided",     "as_strided_",
        "bernoulli_",          "cat",             "chunk",          "clone",
        "constant_pad_nd",     "contiguous",      "copy_",          "detach",
        "detach_",             "diagonal",        "embedding",      "empty",
        "empty_like",          "empty_permuted", "empty_strided",   "expand",         "expand_as",
        "fill_",               "flatten",         "full",           "full_like",
        "gather",              "index",           "index_select",   "is_nonzero",
        "is_pinned",           "is_same_size",    "item",           "lift_fresh",
        "movedim",             "narrow",          "new_empty",      "new_zeros",
        "numpy_T",             "ones",            "ones_like",      "permute",
        "pin_memory",          "repeat",          "reshape",        "resize_",
        "resolve_conj",        "resolve_neg",     "result_type",    "scalar_tensor", "select",
        "set_",                "slice",           "split",          "split_with_sizes",
        "squeeze",             "squeeze_",        "stack",          "t",
        "t_",                  "to",              "transpose",      "transpose_",
        "unbind",              "unflatten",       "unsafe_split",   "unsqueeze",
        "unsqueeze_",          "view",            "view_as",        "zero_",
        "zeros",               "zeros_like",
    };
    if (strncmp(name, "aten::", 6) != 0)
        return strstr(name, "::") != nullptr && strncmp(name, "autograd::", 10) != 0;
    return moves.count(name + 6) == 0;
}

int64_t flop_of(const at::RecordFunction &called)
{
    auto found = formulas().find(called.name());
    if (found == formulas().end())
        return UNKNOWN;
    try {
        return found->second(Arguments{called.inputs()});
    } catch (const Unusual &) {
    } catch (const std::exception &) {
    }
    return UNSIZED;
}

// ------------------------------------------------------------------ nested operators

struct Inside {
    int depth = 0;   // operators currently open
    int counted = 0; // depth of an operator that is counted for everything it calls
    int told = 0;    // depth of the last operator reported, or of one around it
    int summed = 0;  // the same of one that was counted
};
thread_local Inside inside;

constexpr int64_t WRAPPED = -3;

struct Operator : at::ObserverContext {
    explicit Operator(int64_t given) : flop(given) {}
    int64_t flop; // UNSIZED or WRAPPED
};

std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction &called)
{
    inside.depth++;
    if (inside.counted != 0)
        return nullptr;
    for (const c10::IValue &input : called.inputs())
        if (has_wrapper(input))
            return std::make_unique<Operator>(WRAPPED);
    int64_t flop = flop_of(called);
    if (flop == UNSIZED)
        return std::make_unique<Operator>(UNSIZED);
    if (flop == UNKNOWN)
        return nullptr;
    inside.counted = inside.told = inside.summed = inside.depth;
    host->computed(called.name(), flop);
    return nullptr;
}

void ends(const at::RecordFunction &called, at::ObserverContext *context)
{
    int64_t flop = context == nullptr ? UNKNOWN : static_cast<Operator *>(context)->flop;
    if (inside.counted == inside.depth)
        inside.counted = 0;
    else if (inside.counted == 0) {
        // What it has called was reported in its place, or counted.
        bool is_told = inside.told > inside.depth, is_summed = inside.summed > inside.depth;
        if (flop == UNSIZED ? !is_summed : flop == UNKNOWN && !is_told && computes(called.name())) {
            host->computed(called.name(), flop);
            is_told = true;
        }
        if (is_told)
            inside.told = inside.depth;
        if (is_summed)
            inside.summed = inside.depth;
    }
    inside.depth--;
}

// ------------------------------------------------------------------ sizes and types of inputs

constexpr size_t TENSORS = 4; // of a list, so many are written out

// Whether its sizes can be read without involving any class of the program.
bool has_sizes(const at::Tensor &tensor)
{
    return !tensor.unsafeGetTensorImpl()->is_python_dispatch() &&
           !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() && !tensor.is_nested();
}

// As `signature_of` of formats/operator_inputs.py writes what torch.profiler records.
struct Writer {
    std::string text;

    void extents(const at::Tensor &tensor)
    {
        if (!has_sizes(tensor)) {
            text += "[?]";
            return;
        }
        text += '[';
        for (size_t at = 0; at < tensor.sizes().size(); at++)
            text += (at ? "x" : "") + std::to_string(tensor.sizes()[at]);
        text += ']';
    }
    void type(const at::Tensor &tensor)
    {
        switch (tensor.scalar_type()) {
        case at::kBFloat16: text += "bfloat16"; break;
        case at::kHalf: text += "float16"; break;
        case at::kFloat: text += "float32"; break;
        case at::kDouble: text += "float64"; break;
        case at::kLong: text += "int64"; break;
        case at::kInt: text += "int32"; break;
        case at::kShort: text += "int16"; break;
        case at::kChar: text += "int8"; break;
        case at::kByte: text += "uint8"; break;
        case at::kBool: text += "bool"; break;
        default: text += std::string(tensor.dtype().name());
        }
    }
    void list(const std::vector<at::Tensor> &tensors)
    {
        int64_t items = 0;
        text += '(';
        for (size_t at = 0; at < tensors.size(); at++) {
            bool is_sized = tensors[at].defined() && has_sizes(tensors[at]);
            items += is_sized ? tensors[at].numel() : 0;
            if (at < TENSORS && tensors[at].defined()) {
                text += at ? " " : "";
                extents(tensors[at]);
            }
        }
        if (tensors.size() > TENSORS)
            text += " ...: " + std::to_string(tensors.size()) + " tensors, " +
                    std::to_string(items) + " elements";
        text += ')';
    }
    void value(const c10::IValue &value)
    {
        bool is_tensor = value.isTensor() && value.toTensor().defined();
        if (!is_tensor && !value.isTensorList())
            return;
        text += is_first ? "" : ", ";
        is_first = false;
        if (is_tensor) {
            type(value.toTensor());
            extents(value.toTensor());
        } else
            list(value.toTensorVector());
    }
    bool is_first = true;
};

using Values = c10::ArrayRef<const c10::IValue>;

void write_inputs(const void *given, char *text, size_t room)
{
    Writer writer;
    try {
        for (const c10::IValue &value : *static_cast<const Values *>(given))
            writer.value(value);
    } catch (const std::exception &) {
        writer.text = "?";
    }
    snprintf(text, room, "%s", writer.text.c_str());
}

struct Hash {
    uint64_t hash = 1;

    void mix(uint64_t number)
    {
        hash = (hash ^ number) * 0x9FB21C651E98DF25ull;
        hash ^= hash >> 32;
    }
    void tensor(const at::Tensor &tensor)
    {
        if (!tensor.defined())
            return mix(1);
        mix(2 + (uint64_t)tensor.scalar_type());
        if (!has_sizes(tensor))
            return mix(UINT64_MAX);
        mix(tensor.sizes().size());
        for (int64_t size : tensor.sizes())
            mix((uint64_t)size);
    }
    void value(const c10::IValue &value)
    {
        if (value.isTensor())
            tensor(value.toTensor());
        else if (value.isTensorList()) {
            c10::List<at::Tensor> list = value.toTensorList();
            mix(list.size());
            for (size_t at = 0; at < list.size(); at++)
                tensor(list.get(at));
        } else
            mix(0);
    }
};

uint64_t hash_of(Values values)
{
    Hash hash;
    if (values.empty())
        return 0;
    try {
        for (const c10::IValue &value : values)
            hash.value(value);
    } catch (const std::exception &) {
        return 0;
    }
    return hash.hash | 1;
}

// ------------------------------------------------------------------ for the engine

struct Recorded : at::ObserverContext {
    OpenOperator open;
};

std::unique_ptr<at::ObserverContext> recorded(const at::RecordFunction &called)
{
    OpenOperator open;
    Values values = called.inputs();
    OperatorInputs inputs = {hash_of(values), &values, write_inputs};
    if (!host->begins(called.name(), &inputs, &open))
        return nullptr;
    auto context = std::make_unique<Recorded>();
    context->open = open;
    return context;
}

void recorded_ends(const at::RecordFunction &, at::ObserverContext *context)
{
    if (context != nullptr)
        host->ends(&static_cast<Recorded *>(context)->open);
}

// Everything that torch.profiler calls an operator, but for autograd's nodes, which
// autograd_library.cpp tells of.
void record(int has_inputs)
{
    at::addGlobalCallback(
        at::RecordFunctionCallback(recorded, recorded_ends)
            .needsInputs(has_inputs != 0)
            .scopes({at::RecordScope::FUNCTION, at::RecordScope::TORCHSCRIPT_FUNCTION}));
}

void count(int is_on)
{
    if (handle != 0)
        at::removeCallback(handle);
    handle = 0;
    if (is_on)
        handle = at::addGlobalCallback(at::RecordFunctionCallback(begins, ends)
                                           .needsInputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

template <class Item> double first_of(const at::Tensor &tensor)
{
    return static_cast<double>(*static_cast<const Item *>(tensor.const_data_ptr()));
}

// The value of a tensor of one item. Only memory of the CPU's own allocator is read: a GPU may not
// have written yet to memory that it can reach.
bool read_number(const at::Tensor &tensor, double &number)
{
    if (tensor.numel() != 1 || !tensor.is_cpu() || tensor.is_conj() || tensor.is_neg() ||
        !tensor.has_storage())
        return false;
    const at::DataPtr &memory = tensor.storage().data_ptr();
    if (memory.get() == nullptr || memory.get_deleter() != c10::GetCPUAllocator()->raw_deleter())
        return false;
    switch (tensor.scalar_type()) {
    case at::kDouble: number = first_of<double>(tensor); return true;
    case at::kFloat: number = first_of<float>(tensor); return true;
    case at::kHalf: number = first_of<at::Half>(tensor); return true;
    case at::kBFloat16: number = first_of<at::BFloat16>(tensor); return true;
    case at::kLong: number = first_of<int64_t>(tensor); return true;
    case at::kInt: number = first_of<int32_t>(tensor); return true;
    default: return false;
    }
}

int kind_of(const at::Tensor &tensor)
{
    auto type = tensor.scalar_type();
    if (type == at::kLong || type == at::kInt)
        return TENSOR_INDICES;
    return at::isFloatingType(type) ? TENSOR_FLOATS : TENSOR_OTHER;
}

int describe(void *object, HostTensor *found)
{
    PyObject *python = static_cast<PyObject *>(object);
    if (!THPVariable_CheckExact(python))
        return 0;
    const at::Tensor &tensor = THPVariable_Unpack(python);
    if (!is_plain(tensor))
        return 0;
    Sizes sizes = tensor.sizes();
    found->dimensions = (int32_t)sizes.size();
    found->item_bytes = (int32_t)tensor.element_size();
    found->items = tensor.numel();
    for (size_t i = 0; i < sizes.size() && i < TENSOR_DIMENSIONS; i++)
        found->sizes[i] = sizes[i];
    found->kind = kind_of(tensor);
    try {
        found->is_number = read_number(tensor, found->number);
    } catch (const std::exception &) {
        found->is_number = 0;
    }
    return 1;
}

} // namespace

extern "C" __attribute__((visibility("default"))) const char *
taupy_operators_begin(OperatorsHost *given)
{
    if (const char *why = unusable(given->version, OPERATORS_HOST_VERSION))
        return why;
    host = given;
    host->record = record;
    host->count = count;
    host->tensor = describe;
    return nullptr;
}
