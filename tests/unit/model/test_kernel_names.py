"""Kernel names: demangled in full, short to read."""

# ruff: noqa: E501 - compilers write long names

from __future__ import annotations

import pytest

from taupy.model import kernel_names
from taupy.model.kernel_names import demangled, short_name, told_apart
from tests.growth import is_linear


def test_names_are_distinguished_by_their_template_arguments_only_where_they_must():
    names = ["void f<4>(float*)", "void f<8>(float*)", "void g<4>(int)", "h(int)", "h(float)"]
    shown = told_apart(names)
    assert [shown[name] for name in names] == ["f<4>", "f<8>", "g", "h", "h"]


SHORT = {
    "ampere_sgemm_128x64_tn": "ampere_sgemm_128x64_tn",
    "triton_poi_fused_add_0": "triton_poi_fused_add_0",
    "void vecadd(float*, int)": "vecadd",
    "f": "f",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)": "at::native::vectorized_elementwise_kernel",
    "void at::native::(anonymous namespace)::softmax_warp_forward<float, 8, false>(float*, float const*, int)": (
        "at::native::softmax_warp_forward"
    ),
    "(anonymous namespace)::k(int)": "k",
    "void <unnamed>::k<(int)3>(T1 *)": "k",
    "void (anonymous namespace)::k<3>(float const*)": "k",
    "int* (anonymous namespace)::ns::k()": "ns::k",
    "void unnamed>::k<3>(const float *)": "k",
    "ns::not_unnamed::k<3>()": "ns::not_unnamed::k",
    "std::enable_if<((3) > (2)), void>::type ns::k<int, (3 >> 1)>(int)": "ns::k",
    "unsigned long long k<int>(unsigned long)": "k",
    "decltype (((a)->(b))) ns::k<int>(int)": "ns::k",
    "decltype(auto) ns::k<int>(int)": "ns::k",
    "ns::f(int)::{lambda(float, std::pair<int, int>)#2}::operator()(float, std::pair<int, int>) const": (
        "ns::f::{lambda#2}::operator()"
    ),
    "void ns::C<int>::f(int) const::{lambda()#1}::operator()<float>() const": "ns::C::f::{lambda#1}::operator()",
    "ns::f(int)::[lambda(int) (instance 1)]::operator ()(int) const": "ns::f::{lambda#1}::operator()",
    "std::ostream& ns::operator<< <int>(std::ostream&, ns::A<int> const&)": "ns::operator<<",
    "bool ns::operator< <int>(ns::A<int>, int)": "ns::operator<",
    "ns::A<int>::operator->() const": "ns::A::operator->",
    "ns::A<int>::operator bool() const": "ns::A::operator bool",
    "ns::A::operator unsigned long() const &": "ns::A::operator unsigned long",
    "operator new[](unsigned long)": "operator new[]",
    "void ns::operators::cooperator<int>(int)": "ns::operators::cooperator",
    "void k<&ns::A::operator()>(int)": "k",
    "void (*ns::choose<int>(int))(float)": "ns::choose",
    "k(int) [clone .isra.0]": "k",
    "k[abi:cxx11](int)": "k",
    "k<(bool)1, (1<2)>(int)": "k",
    "Memcpy HtoD (Pageable -> Device)": "Memcpy HtoD (Pageable -> Device)",
    "[CUDA memcpy HtoD]": "[CUDA memcpy HtoD]",
    "cutlass::Kernel<cutlass_80_tensorop_s1688gemm<(Layout)0> >(Params)": "cutlass::Kernel",
    "": "",
}


@pytest.mark.parametrize(("full", "short"), SHORT.items(), ids=lambda name: name[:40] or "-")
def test_a_short_name_is_the_qualified_name_alone(full, short):
    assert short_name(full) == short


def test_a_short_name_of_a_short_name_is_itself():
    for short in SHORT.values():
        assert short_name(short) == short


def test_a_mangled_name_is_demangled_and_any_other_kept():
    if kernel_names._demangler() is None:
        pytest.skip("this machine has no C++ runtime")
    assert demangled("_Z6vecaddPfi") == "vecadd(float*, int)"
    assert (
        demangled("_ZN35_GLOBAL__N__0badcafe_4_k_cu_12345671kEi") == "(anonymous namespace)::k(int)"
    )
    for plain in (
        "i",
        "f",
        "_Znonsense",
        "",
        "_Z\0f",
        "ampere_sgemm_128x64_tn",
        "_Z" + "a" * 100_000,
    ):
        assert demangled(plain) == plain


def bomb(length: int) -> str:
    """pair<int, int>, then pairs of the pair before: twice the text at each step."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    steps = "".join(f"S_IS{digits[i]}_S{digits[i]}_E" for i in range(length))
    return "_Z1fSt4pairIiiE" + steps


@pytest.mark.slow
def test_a_name_that_stands_for_gigabytes_stays_mangled(monkeypatch):
    if kernel_names._demangler() is None:
        pytest.skip("this machine has no C++ runtime")
    monkeypatch.setattr(kernel_names, "SECONDS_AT_MOST", 0.5)
    assert demangled(bomb(3)).startswith("f(std::pair<int, int>, std::pair<std::pair<int, int>")
    assert demangled(bomb(34)) == bomb(34)
    assert demangled("_Z6vecaddPfi") == "vecadd(float*, int)"  # and goes on


@pytest.mark.slow
def test_a_harmless_name_with_many_references_is_demangled():
    if kernel_names._demangler() is None:
        pytest.skip("this machine has no C++ runtime")
    name = "_Z1fSt4pairIiiE" + "S0_" * 40
    assert demangled(name) == "f(" + ", ".join(["std::pair<int, int>"] * 41) + ")"
    apart = kernel_names.ApartDemangler()
    for i in range(5):
        answer = apart(bomb(34)) if i == 1 else apart(name)
        assert (answer is None) == (i == 1)
    apart._end()


def test_without_a_demangler_names_stay_mangled(monkeypatch):
    monkeypatch.setattr(kernel_names, "_demangler", lambda: None)
    assert demangled("_Z6vecaddPfi") == "_Z6vecaddPfi"


@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "(",
        "{",
        "[",
        ">",
        ")",
        "operator",
        "operator<",
        "(*",
        " (*",
        "{lambda(",
        "f<(",
        "a::",
        "() const::",
        "decltype(",
        " ",
        "(anonymous namespace)",
    ],
)
def test_hostile_names_take_linear_time(piece):
    assert is_linear(lambda length: short_name("f" + piece * (length // len(piece))), 5_000)
