"""Shorten kernel names step by step, to match them with kernels on other GPUs.

The work of some kernels depends on their template arguments: `vectorized_elementwise_kernel` adds
or multiplies, `cutlass::Kernel2` is any matrix product. Such *wrappers* keep the arguments that
distinguish them, and lose numbers, containers, then types; all other kernels lose their arguments
as a whole. The last step removes GPU generations, tile sizes and shapes of instructions.

`match.py` decides which names then mean the same thing.
"""

from __future__ import annotations

import re
from functools import lru_cache

from taupy.model.kernel_names import demangled, short_name, template_arguments

_WRAPPER = re.compile(
    r"elementwise_kernel|(?<![A-Za-z])reduce_kernel|multi_tensor_apply|grid_stride_kernel|index_kernel"
    r"|\bcutlass\w*::(?:\w+::)*(?:Kernel2?|device_kernel)\b|\bcub::|\bthrust::|_kernel_agent"
    r"|EigenMetaKernel|cuda_parallel_launch|parallel_for|forall|\braja::|\bRAJA::"
)

_ARCHITECTURE = re.compile(
    r"(?<![a-z0-9])(?:kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell"
    r"|sm_?\d{2,3}[af]?(?:_xmma)?|xmma)(?![a-z0-9])_?|(?<=cutlass)_\d{2,3}(?=_)|Sm\d{2,3}\b",
    re.IGNORECASE,
)
_TILES = re.compile(
    r"_?(?<![a-z0-9])(?:tilesize|warpsize|warpgroupsize|tensor|sliced)?\d+x\d+(?:x\d+)*"
    r"(?:_\d+x\d+)*(?![a-z0-9])",
    re.IGNORECASE,
)
_STAGES = re.compile(r"_?(?<![a-z0-9])stages?(?:_?\d+)?(?![a-z0-9])", re.IGNORECASE)
# `s16816gemm`: an mma of 16 x 8 x 16, summed in single precision.
_MMA = re.compile(
    r"(?<![a-z0-9])([shdif])(?:884|1684|1688|16816|16832|8816|8832|161616|64\d{4,6})"
    r"(?=gemm|fprop|dgrad|wgrad)"
)
_NVJET = re.compile(r"(nvjet(?:_sm\d+)?_[a-z]+)_\w*_([NT]{2,3})")
_TRITON = re.compile(r"(triton_[a-z]\w*?)_\d+")
_CUDNN_VERSION = re.compile(r"(\w*cudnn\w*)_v\d+")

_WORDS = re.compile(
    r"(?<!\w)[A-Za-z_]\w*(?:(?:::(?:\(anonymous namespace\)|<unnamed>))?::[A-Za-z_]\w*)*"
)
_CONTAINER = re.compile(r"\b(?:std|at::detail)::[aA]rray<[^<>]*>")
_TYPES = re.compile(
    r"bool|(un)?signed|char|short|int|long|float|double|half|void|size_t|complex|u?int\d+_t"
    r"|(__)?half2?|half_t|Half|BFloat16|bfloat16_t|(__)?nv_bfloat162?|tfloat32_t|Float8_\w+"
    r"|__nv_fp8_\w+|(float|double|int)[234]"
)
# Words that only carry arguments, or depend on the version of a library.
_CARRIERS = re.compile(
    r"const|volatile|true|false|tuple|pair|integral_constant|enable_if|type|Params|lambda|instance"
    r"|operator|TensorIterator(Base)?|TensorListMetadata|(Trivial)?OffsetCalculator"
    r"|make_offset_calculator|(Load|Store)With(out)?Cast|gpu_kernel_impl(_nocast(_templated)?)?"
)


_SPELLINGS = (
    (re.compile(r"\(bool\)1\b"), "true"),
    (re.compile(r"\(bool\)0\b"), "false"),
    (re.compile(r"\((?:(?:un)?signed )?(?:char|short|int|long|long long)\)(?=-?\d)"), ""),
    (re.compile(r"(?<=\d)[uUlL]{1,3}\b"), ""),
    (
        re.compile(r"<unnamed>(?=::)|(?<!\w)unnamed>(?=::)|\(anonymous\)(?=::)"),
        "(anonymous namespace)",
    ),
    (re.compile(r"\bconst ([\w:]+(?:<[^<>]*>)?) ?(?=[*&])"), r"\1 const"),
    (re.compile(r" (?=[>*&])|(?<=[*&,]) "), ""),
)


def one_spelling(name: str) -> str:
    """A C++ name in a canonical form: `f<(int)4, (bool)1>` becomes `f<4,true>`.

    Nsight Compute and CUPTI write numbers, truth values and `const` differently.
    """
    for pattern, written in _SPELLINGS:
        name = pattern.sub(written, name)
    return name


def is_wrapper(name: str) -> bool:
    """Whether this kernel's work is determined by its template arguments."""
    return _WRAPPER.search(_short(name)) is not None


def with_types(name: str) -> str:
    """The short name; for wrappers, with the words of their template arguments."""
    return _with_words(name, types=True)


def without_types(name: str) -> str:
    """The same without types: additions in half and in single precision become equal."""
    return _with_words(name, types=False)


def without_architecture(name: str) -> str:
    """Also without GPU generations, tile sizes and the shapes of matrix instructions.

    `ampere_sgemm_128x64_tn` and `volta_sgemm_64x64_tn` are both `sgemm_tn`, `s884gemm` of a V100
    and `s16816gemm` of an A100 both `sgemm` of their types.
    """
    short = without_types(name)
    for whole in (_TRITON, _CUDNN_VERSION):
        if match := whole.fullmatch(short):
            short = match[1]
    if match := _NVJET.fullmatch(short):
        short = f"{match[1]}_{match[2]}"
    for pattern in (_ARCHITECTURE, _TILES, _STAGES):
        short = pattern.sub("", short)
    short = _MMA.sub(r"\1", short).strip("_ ")
    return short or name


@lru_cache(maxsize=4096)
def _short(name: str) -> str:
    return short_name(demangled(name))


@lru_cache(maxsize=4096)
def _with_words(name: str, types: bool) -> str:
    short = _short(name)
    if not is_wrapper(name):
        return short
    words: dict[str, None] = {}
    for name_parts in _WORDS.findall(_CONTAINER.sub("", template_arguments(demangled(name)))):
        word = name_parts.rpartition("::")[2]
        if not _CARRIERS.fullmatch(word) and (types or not _TYPES.fullmatch(word)):
            words[word] = None
    return f"{short}<{', '.join(words)}>" if words else short
