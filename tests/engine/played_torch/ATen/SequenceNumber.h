// As far as taupy needs PyTorch's header of this name.
#pragma once
#include <cstdint>
namespace at::sequence_number {
uint64_t peek();
}
