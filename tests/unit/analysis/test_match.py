"""Which timers of different trials are the same thing."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from taupy.analysis.kernel_cuts import without_architecture
from taupy.analysis.match import NameTable, matched, without_place
from taupy.errors import UsageError


class Name(NamedTuple):
    timer: str
    short_name: str = ""
    file: str | None = None
    line: int | None = None
    groups: str = "PYTHON"


def routine(name, line, file="app.py", groups="PYTHON"):
    return Name(f"{name} [{{{file}}}{{{line}}}]", name, file, line, groups)


def kernel(name):
    return Name(name, name, groups="GPU_KERNEL")


def side(*names):
    """Ids made from names, as the database makes them."""
    return {hash(name): name for name in names}


def rows(*sides, **more):
    """Name and rule -> the timers of each side that are added up there."""
    found = {}
    for at, (known, keys) in enumerate(zip(sides, matched(sides, **more), strict=True)):
        for id, key in keys.items():
            found.setdefault((key.timer, key.rule), [[] for _ in sides])[at].append(known[id].timer)
    return {key: [sorted(names) for names in there] for key, there in found.items()}


def test_what_has_the_same_name_is_the_same():
    f = routine("f", 3)
    assert rows(side(f), side(f)) == {(f.timer, "same"): [[f.timer], [f.timer]]}


def test_what_only_one_side_has_stays_alone():
    f, g = routine("f", 3), routine("g", 9)
    assert rows(side(f), side(g)) == {
        (f.timer, "same"): [[f.timer], []],
        (g.timer, "same"): [[], [g.timer]],
    }


def test_a_routine_on_another_line_is_the_same_routine():
    before, after = routine("f", 3), routine("f", 7)
    assert rows(side(before), side(after)) == {
        (before.timer, "moved"): [[before.timer], [after.timer]]
    }


def test_routines_of_one_name_in_other_files_are_others():
    one, other = routine("f", 3, "a.py"), routine("f", 3, "b.py")
    assert len(rows(side(one), side(other))) == 2


def test_lambdas_that_move_together_are_not_matched_crosswise():
    # The second one before stands where the first one is afterwards.
    before = [routine("<lambda>", 3), routine("<lambda>", 7)]
    after = [routine("<lambda>", 7), routine("<lambda>", 11)]
    assert rows(side(*before), side(*after)) == {
        (before[0].timer, "moved"): [[before[0].timer], [after[0].timer]],
        (before[1].timer, "moved"): [[before[1].timer], [after[1].timer]],
    }


def test_lambdas_of_another_number_are_added_up():
    before = [routine("<lambda>", 3), routine("<lambda>", 7)]
    after = [routine("<lambda>", 4)]
    assert rows(side(*before), side(*after)) == {
        ("<lambda> [{app.py}]", "moved"): [sorted(one.timer for one in before), [after[0].timer]]
    }


def test_a_throttled_routine_is_still_that_routine():
    before, after = routine("f", 3), routine("f", 3, groups="PYTHON|THROTTLED")
    assert rows(side(before), side(after)) == {
        (before.timer, "moved"): [[before.timer], [after.timer]]
    }


def test_a_routine_in_some_of_three_sides_keeps_its_name():
    f, g = routine("f", 3), routine("g", 9)
    found = rows(side(f, g), side(f), side(f, g))
    assert found[g.timer, "same"] == [[g.timer], [], [g.timer]]


def test_a_mangled_name_is_the_same_as_the_demangled_one():
    mangled, plain = kernel("_Z4gemmIfEvPT_i"), kernel("void gemm<float>(float*, int)")
    assert rows(side(mangled), side(plain)) == {
        (plain.timer, "demangled"): [[mangled.timer], [plain.timer]]
    }


def test_two_demanglers_spellings_are_one_name():
    wide, narrow = (
        kernel(f"void <unnamed>::gemv<(int){size}, float, (bool)1>(const float *, int)")
        for size in (128, 64)
    )
    plain = kernel("void (anonymous namespace)::gemv<128, float, true>(float const*, int)")
    other = kernel("void (anonymous namespace)::gemv<64, float, true>(float const*, int)")
    found = rows(side(wide, narrow), side(plain, other))
    assert sorted(map(len, found.values())) == [2, 2]
    assert all(len(there) == 1 for both in found.values() for there in both)
    assert {rule for _, rule in found} == {"demangled"}
    pairs = [both[0][0] for both in found.values() if both[1] == [plain.timer]]
    assert pairs == [wide.timer]


def test_the_same_name_is_shown_as_it_is():
    one = kernel("void f<std::array<char*, 3ul> >(const int *)")
    assert rows(side(one), side(one)) == {(one.timer, "same"): [[one.timer], [one.timer]]}


def test_kernels_are_shortened_only_as_far_as_it_takes():
    one, two, three = (kernel(f"void gemm<{size}>(float*)") for size in (64, 128, 256))
    assert rows(side(one, two), side(two, three)) == {
        (two.timer, "same"): [[two.timer], [two.timer]],
        ("gemm", "template"): [[one.timer], [three.timer]],
    }


def test_a_kernel_without_partner_keeps_its_full_name():
    one, two = kernel("void gemm<64>(float*)"), kernel("relu(float*)")
    assert set(rows(side(one), side(two))) == {(one.timer, "same"), (two.timer, "same")}


def test_names_of_gpu_generations_and_tiles_are_the_last_to_go():
    ampere, volta = kernel("ampere_sgemm_128x64_tn"), kernel("volta_sgemm_64x64_tn")
    assert rows(side(ampere), side(volta)) == {
        ("sgemm_tn", "architecture"): [[ampere.timer], [volta.timer]]
    }


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("ampere_sgemm_128x64_tn", "sgemm_tn"),
        ("sm80_xmma_gemm_f16f16_f32_tn_n_tilesize64x32x8_stage4", "gemm_f16f16_f32_tn_n"),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn", "fp16_sgemm_fp16_ldg8_f2f_tn"),
        (
            "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn",
            "fp16_sgemm_fp16_ldg8_f2f_tn",
        ),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", "nvjet_hsh_NNT"),
        ("volta_scudnn_128x64_relu_interior_nn_v1", "scudnn_relu_interior_nn"),
        ("my_kernel_v2", "my_kernel_v2"),  # versions of ours are other kernels
        ("triton_poi_fused_add_relu_3", "triton_poi_fused_add_relu"),
        ("maxwell_scudnn_128x32_relu_small_nn", "scudnn_relu_small_nn"),
        (
            "void cutlass::Kernel<cutlass_80_simt_sgemm_128x128_8x4_nn>(int)",
            "cutlass::Kernel<cutlass_simt_sgemm_nn>",
        ),
        ("adaptive_pool", "adaptive_pool"),  # begins with `ada`
        ("hopper", "hopper"),  # nothing would be left
    ],
)
def test_what_is_left_of_a_kernels_name_without_its_architecture(name, bare):
    assert without_architecture(name) == bare


ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<{}, at::native::{}, {}<char*, {}> >(int)"
)
ADD, MULTIPLY = "CUDAFunctor_add<{}>", "BinaryFunctor<{0}, {0}, at::native::MulFunctor<{0}> >"


def test_kernels_whose_arguments_decide_their_work_are_distinguished_by_these():
    add = kernel(ELEMENTWISE.format(4, ADD.format("float"), "at::detail::Array", 3))
    half = kernel(ELEMENTWISE.format(4, ADD.format("c10::Half"), "at::detail::Array", 3))
    wide = kernel(ELEMENTWISE.format(8, ADD.format("float"), "std::array", "3ul"))
    multiply = kernel(ELEMENTWISE.format(4, MULTIPLY.format("float"), "at::detail::Array", 3))
    name = "at::native::vectorized_elementwise_kernel<CUDAFunctor_add{}>"
    assert rows(side(add), side(multiply)) == {
        (add.timer, "same"): [[add.timer], []],
        (multiply.timer, "same"): [[], [multiply.timer]],
    }
    assert rows(side(add, half), side(wide))[name.format(", float"), "template"] == [
        [add.timer], [wide.timer],
    ]  # fmt: skip
    assert rows(side(half), side(wide)) == {
        (name.format(""), "template"): [[half.timer], [wide.timer]]
    }


def test_products_of_cutlass_are_distinguished_by_what_they_multiply():
    name = "void cutlass::Kernel2<{0}>({0}::Params)"
    tensor = kernel(name.format("cutlass_80_tensorop_s16816gemm_f16_128x128_32x4_nn_align8"))
    older = kernel(name.format("cutlass_70_tensorop_s884gemm_f16_128x128_nn_align8"))
    plain = kernel(name.format("cutlass_80_simt_sgemm_128x128_8x4_nn_align1"))
    assert rows(side(tensor), side(older, plain)) == {
        ("cutlass::Kernel2<cutlass_tensorop_sgemm_f16_nn_align8>", "architecture"): [
            [tensor.timer], [older.timer],
        ],
        (plain.timer, "same"): [[], [plain.timer]],
    }  # fmt: skip


def test_a_level_cuts_all_kernels_alike_and_no_routine():
    f = routine("f", 3)
    one, two = kernel("void gemm<64>(float*)"), kernel("void gemm<128>(float*)")
    found = rows(side(f, one, two), side(f, one, two), level="template")
    assert found["gemm", "template"] == [[two.timer, one.timer], [two.timer, one.timer]]
    assert (f.timer, "same") in found


def test_exact_means_full_names_of_routines_too():
    before, after = routine("f", 3), routine("f", 7)
    assert len(rows(side(before), side(after), level="exact")) == 2


# --- the user's table ----------------------------------------------------------


def test_a_table_gives_one_name_to_all_that_its_patterns_fit():
    neon, torch, other = kernel("sconv_winograd_2x2"), kernel("cudnn::winograd<3>()"), kernel("x")
    table = NameTable({"winograd": ["*winograd*"]})
    assert rows(side(neon, other), side(torch, other), table=table) == {
        ("winograd", "table"): [[neon.timer], [torch.timer]],
        ("x", "same"): [["x"], ["x"]],
    }


def test_the_first_pattern_that_fits_counts_and_regular_expressions_expand():
    table = NameTable({"special": "gemm_1", r"matrix \1": r"/gemm_(\d)/", "all": "*"})
    assert table.name_of(kernel("gemm_1")) == "special"
    assert table.name_of(kernel("sgemm_22")) == "matrix 2"
    assert table.name_of(kernel("f[0]")) == "all"


def test_brackets_in_a_pattern_are_themselves():
    table = NameTable({"f": "f [{a.py}*"})
    assert table.name_of(routine("f", 3, "a.py")) == "f"
    assert table.name_of(routine("f", 3, "b.py")) is None


@pytest.mark.parametrize(
    ("patterns", "complaint"),
    [
        ({"x": 3}, "neither a pattern nor a list"),
        ({"x": ["a", 3]}, "neither a pattern nor a list"),
        ({"x": "/(/"}, "not a regular expression"),
        ({r"x\2": "/(a)/"}, "does not suit /\\(a\\)/: invalid group reference 2"),
        ({r"\g<x>": "/(a)/"}, "unknown group name 'x'"),
        ({r"\g<1": "/(a)/"}, "missing >"),
        ({r"\x(\1)": "/(a)/"}, "bad escape"),
        ({1: "/(a)/"}, "must map new names to patterns"),
        (["a"], "must map new names to patterns"),
        ("a", "must map new names to patterns"),
    ],
)
def test_a_table_that_is_none_says_where(patterns, complaint):
    with pytest.raises(UsageError, match=f"match.toml: .*{complaint}"):
        NameTable(patterns, "match.toml")


def test_a_name_without_its_place():
    assert without_place("A.f [{a b.py}{12}]") == "A.f"
    assert without_place("operator[](int)") == "operator[](int)"


# --- files that have several names ---------------------------------------------------


def test_one_file_in_two_spellings_is_the_same_file():
    now, before = routine("f", 3, "app.py"), routine("f", 3, "./app.py")
    assert rows(side(now), side(before)) == {(now.timer, "same"): [[now.timer], [before.timer]]}
    assert rows(side(before), side(now)) == {(now.timer, "same"): [[before.timer], [now.timer]]}
    assert rows(side(before), side(now), level="exact") == rows(side(before), side(now))


def test_two_spellings_on_one_side_are_added_up():
    now, before = routine("f", 3, "app.py"), routine("f", 3, "sub/../app.py")
    assert rows(side(now, before), side(now)) == {
        (now.timer, "same"): [[now.timer, before.timer], [now.timer]]
    }


def with_places(*of_sides):
    return {"places": lambda files: [{**places} for places in of_sides]}


def test_files_at_one_place_have_one_name():
    old, new = routine("f", 3, "old.py"), routine("f", 9, "new.py")
    places = with_places({"old.py": ("/v1/old.py", ())}, {"new.py": ("/v2/new.py", ())})
    assert rows(side(old), side(new), **places) == {
        (old.timer, "moved"): [[old.timer], [new.timer]]
    }


def test_what_has_its_own_counterpart_is_not_taken_for_another_file():
    # The new script imports the old one.
    old, new = routine("f", 3, "old.py"), routine("f", 9, "new.py")
    places = with_places(
        {"old.py": ("/old.py", ())}, {"new.py": ("/new.py", ()), "old.py": ("/old.py", "old.py")}
    )
    assert rows(side(old), side(old, new), **places) == {
        (old.timer, "same"): [[old.timer], [old.timer]],
        (new.timer, "same"): [[], [new.timer]],
    }


def test_two_files_of_a_side_at_one_place_are_not_joined():
    a, b, c = (routine("f", 1, f"{name}.py") for name in "abc")
    places = with_places({"a.py": ("m",), "b.py": ("m",)}, {"c.py": ("m",)})
    assert len(rows(side(a, b), side(c), **places)) == 3


def test_three_sides_are_joined_though_their_places_are_of_different_kinds():
    a, b, c = (routine("f", 1, f"{name}.py") for name in "abc")
    places = with_places(
        {"a.py": ("/x.py", "m")}, {"b.py": ("/x.py", "m")}, {"c.py": ("/y.py", "m")}
    )
    (found,) = rows(side(a), side(b), side(c), **places).values()
    assert found == [[a.timer], [b.timer], [c.timer]]


def test_calls_of_cuda_and_hip_are_the_same_calls():
    def api(name, groups="CUDA_API"):
        return Name(name, name, groups=groups)

    one = side(
        api("cudaLaunchKernel"),
        api("cudaMalloc"),
        api("cudaMemcpyAsync_v3020"),
        api("cudaStreamSynchronize", "CUDA_API|GPU_SYNC"),
        Name("cudaFree", "cudaFree"),
    )
    two = side(
        api("hipLaunchKernel"),
        api("hipMalloc"),
        api("hipMemcpyAsync"),
        api("hipStreamSynchronize", "CUDA_API|GPU_SYNC"),
        api("hipMemcpyWithStream"),
    )
    a, b = matched([one, two])
    for name in ("LaunchKernel", "Malloc", "MemcpyAsync", "StreamSynchronize"):
        (mine,) = (key for id, key in a.items() if name in one[id].timer)
        (theirs,) = (key for id, key in b.items() if f"hip{name}" == two[id].timer)
        assert (mine, mine.rule) == (theirs, "api")
        assert mine.timer.startswith("cuda")
    alone = [key.timer for key in (*a.values(), *b.values()) if key.rule == "same"]
    assert sorted(alone) == ["cudaFree", "hipMemcpyWithStream"]
