"""The trainings of `gpu_faults.py` as they would be after what the findings advise.

They are written down, not measured: what they show is that the finding goes away when its advice
is followed, and that the training would then take less time. No GPU has run them.
"""

from __future__ import annotations

from taupy.model.profile import Profile
from tests.findings.gpu_faults import BACKWARD, FORWARD, LAUNCH, SYNC, TENSOR
from tests.findings.trainings import api, copy, kernel, ms, part, training, us


def tiny_kernels() -> Profile:
    """A fused optimizer and a compiled cell."""
    return training(
        part("step", FORWARD, own=us(100), calls=[
            api(LAUNCH, 20, us(6), kernel("triton_fused_add_mul", 20, us(30)))]),
        part("step", "update", own=us(50), calls=[
            api(LAUNCH, 4, us(6), kernel("multi_tensor_apply_kernel", 4, us(200)))]),
        part("step", BACKWARD, own=us(100), calls=[
            api(LAUNCH, 40, us(6), kernel(TENSOR, 40, us(20)))]),
        part("step", "end", calls=[api(SYNC, 1, us(1_600))]),
    )  # fmt: skip


def pageable_copies() -> Profile:
    """From pinned memory, while the step before is computed."""
    return training(
        part("step", "to_device", calls=[
            api("cudaMemcpyAsync", 1, us(10),
                copy("HtoD", 1, us(2_600), 64 << 20, "from pinned to device"))]),
        part("step", FORWARD, own=us(800), calls=[
            api(LAUNCH, 60, us(5), kernel(TENSOR, 60, us(300)))]),
        part("step", BACKWARD, own=us(400), calls=[
            api(LAUNCH, 90, us(5), kernel(TENSOR, 90, us(220)))]),
        part("step", "end", calls=[api(SYNC, 1, ms(36))]),
    )  # fmt: skip


def small_copies() -> Profile:
    """All labels and lengths in one buffer."""
    return training(
        part("step", "collate", own=us(200), calls=[
            api("cudaMemcpyAsync", 1, us(9),
                copy("HtoD", 1, us(5), 38_400, "from pinned to device"))]),
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(35)))]),
        part("step", BACKWARD, own=us(300), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(35)))]),
        part("step", "end", calls=[api(SYNC, 1, us(2_000))]),
    )  # fmt: skip


def item_each_step() -> Profile:
    """The loss is read a step later, when it is there."""
    return training(
        part("step", FORWARD, own=us(600), calls=[
            api(LAUNCH, 60, us(5), kernel(TENSOR, 60, us(70)))]),
        part("step", "running_loss", own=us(100), calls=[api(SYNC, 1, us(20))]),
        part("step", "update_metrics", own=us(2_900)),
        part("step", BACKWARD, own=us(700), calls=[
            api(LAUNCH, 60, us(5), kernel(TENSOR, 60, us(40)))]),
        part("step", "end", calls=[api(SYNC, 1, us(1_900))]),
    )  # fmt: skip


def synchronize_each_layer() -> Profile:
    """Events around each layer, read at the end of the step."""
    return training(
        part("step", "Stopwatch.layer", own=us(1_000), entries=40, calls=[
            api(LAUNCH, 40, us(5), kernel(TENSOR, 40, us(140))),
            api("cudaEventRecord", 80, us(2))]),
        part("step", "Stopwatch.report", own=us(300),
             calls=[api("cudaEventSynchronize", 1, us(4_000))]),
    )  # fmt: skip


def python_between_launches() -> Profile:
    """All beams in one tensor."""
    return training(
        part("step", "beam_search", own=us(300)),
        part("step", "beam_search", FORWARD, own=us(600), calls=[
            api(LAUNCH, 48, us(5), kernel(TENSOR, 48, us(45)))]),
        part("step", "end", calls=[api(SYNC, 1, us(1_100))]),
    )  # fmt: skip


def single_precision() -> Profile:
    """TF32 is allowed."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 30, us(5), kernel("sm80_xmma_gemm_f32f32_tf32f32_f32_tn", 30, us(60)))]),
        part("step", BACKWARD, own=us(400), calls=[
            api(LAUNCH, 60, us(5), kernel("sm80_xmma_gemm_f32f32_tf32f32_f32_nt", 60, us(55)))]),
        part("step", "end", calls=[api(SYNC, 1, us(4_000))]),
    )  # fmt: skip


def half_without_tensor_cores() -> Profile:
    """A width that is a multiple of 8."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 40, us(5),
                kernel("ampere_fp16_s16816gemm_fp16_128x64_tn", 40, us(70)))]),
        part("step", BACKWARD, own=us(400), calls=[
            api(LAUNCH, 40, us(5),
                kernel("ampere_fp16_s16816gemm_fp16_128x64_nt", 40, us(65)))]),
        part("step", "end", calls=[api(SYNC, 1, us(4_900))]),
        gpu="NVIDIA A100-SXM4-80GB", capability="8.0",
    )  # fmt: skip


def kernels_without_flop() -> Profile:
    """One layout for all products."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 40, us(5), kernel(TENSOR, 40, us(100), flop=2.0e10)),
            api(LAUNCH, 2, us(5), kernel("direct_copy_kernel_cuda<bf16>", 2, us(150), flop=0))]),
        part("step", "end", calls=[api(SYNC, 1, us(3_600))]),
    )  # fmt: skip


def allocation_each_step() -> Profile:
    """The workspace is kept."""
    return training(
        part("step", FORWARD, own=us(600), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(70)))]),
        part("step", "end", calls=[api(SYNC, 1, us(2_650))]),
    )  # fmt: skip


def tokens_drawn_in_python() -> Profile:
    """Drawn on the GPU."""
    return training(
        part("step", "generate", own=us(300)),
        part("step", "generate", FORWARD, own=us(300), calls=[
            api("cudaGraphLaunch", 16, us(20), kernel(TENSOR, 320, us(12)),
                kernel("draw_kernel", 16, us(15)))]),
        part("step", "end", calls=[api(SYNC, 1, us(3_100))]),
    )  # fmt: skip


def averages_of_parameters() -> Profile:
    """By a kernel for many parameters."""
    return training(
        part("step", FORWARD, own=us(300), calls=[
            api(LAUNCH, 40, us(5), kernel(TENSOR, 40, us(30)))]),
        part("step", "Average.update", own=us(100), calls=[
            api(LAUNCH, 6, us(5), kernel("multi_tensor_apply_kernel<lerp>", 6, us(250)))]),
        part("step", "end", calls=[api(SYNC, 1, us(2_000))]),
    )  # fmt: skip


def metrics_one_by_one() -> Profile:
    """All metrics in one tensor."""
    return training(
        part("step", FORWARD, own=us(300), calls=[
            api(LAUNCH, 40, us(5), kernel(TENSOR, 40, us(40)))]),
        part("step", "Metrics.read", own=us(100), calls=[
            api("cudaMemcpyAsync", 1, us(12),
                copy("DtoH", 1, us(3), 1_600, "from device to pinned")),
            api(SYNC, 1, us(1_000))]),
    )  # fmt: skip


def staging_each_step() -> Profile:
    """The pinned memory is kept."""
    return training(
        part("step", FORWARD, own=us(600), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(90)))]),
        part("step", "end", calls=[api(SYNC, 1, us(3_700))]),
    )  # fmt: skip


def masks_and_casts() -> Profile:
    """Fused into the products."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 60, us(5), kernel(TENSOR, 60, us(85), flop=1.0e10))]),
        part("step", "end", calls=[api(SYNC, 1, us(4_400))]),
    )  # fmt: skip


def convolutions_in_single() -> Profile:
    """TF32 is allowed."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 30, us(5),
                kernel("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_nhwc", 30, us(110)))]),
        part("step", "end", calls=[api(SYNC, 1, us(2_900))]),
        gpu="NVIDIA A100-SXM4-80GB", capability="8.0",
    )  # fmt: skip


def odd_vocabulary() -> Profile:
    """Padded to 50,304."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 42, us(5), kernel("volta_fp16_s884gemm_fp16_128x64_tn", 42, us(110)))]),
        part("step", "end", calls=[api(SYNC, 1, us(4_100))]),
        gpu="Tesla V100-SXM2-16GB", capability="7.0",
    )  # fmt: skip


def results_to_host() -> Profile:
    """Into pinned memory, while the next step is computed."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(60)))]),
        part("step", "collect_outputs", own=us(200), calls=[
            api("cudaMemcpyAsync", 1, us(10),
                copy("DtoH", 1, us(1_600), 40_000_000, "from device to pinned"))]),
        part("step", "end", calls=[api(SYNC, 1, us(3_600))]),
    )  # fmt: skip


MENDED = (
    *(tiny_kernels, pageable_copies, small_copies, item_each_step, synchronize_each_layer),
    *(python_between_launches, single_precision, half_without_tensor_cores),
    *(kernels_without_flop, allocation_each_step, results_to_host, tokens_drawn_in_python),
    *(averages_of_parameters, metrics_one_by_one, staging_each_step, masks_and_casts),
    *(convolutions_in_single, odd_vocabulary),
)
