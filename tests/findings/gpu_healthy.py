"""Trainings on a GPU with nothing to find: they look like faults to those who do not think."""

from __future__ import annotations

from taupy.model.gpu_time import TIME, GpuTime, Idle
from taupy.model.profile import Profile
from tests.findings.gpu_faults import (
    ALONE,
    BACKWARD,
    DATA,
    FORWARD,
    IMPORT,
    LAUNCH,
    REDUCE,
    SYNC,
    TENSOR,
    WORKERS,
)  # fmt: skip
from tests.findings.trainings import api, copy, kernel, ms, part, training, us


def well_fed() -> Profile:
    """The GPU works all the time; the host waits for it in nine tenths of the run."""
    return training(
        part(DATA, WORKERS, own=us(150)),
        part("step", "to_device", calls=[
            api("cudaMemcpyAsync", 1, us(10),
                copy("HtoD", 1, us(300), 8 << 20, "from pinned to device"))]),
        part("step", FORWARD, own=us(900), calls=[
            api(LAUNCH, 80, us(5), kernel(TENSOR, 80, us(150)))]),
        part("step", BACKWARD, own=us(700), calls=[
            api(LAUNCH, 120, us(5), kernel(TENSOR, 120, us(160)))]),
        part("step", "log_loss", calls=[api(SYNC, 1, us(29_100))]),
        once=[(IMPORT, ms(4_000))],
    )  # fmt: skip


def even_ranks() -> Profile:
    """Four ranks with a jitter of a percent; collectives take what the network needs."""

    def rank(extra: float):
        return [
            part("step", FORWARD, own=ms(10 + extra)),
            part("step", BACKWARD, own=ms(20)),
            part("step", REDUCE, own=ms(2.3 - extra)),
        ]  # fmt: skip

    nodes = {number: {"Rank": str(number), "RANK": str(number)} for number in range(4)}
    return training(ranks=[rank(0.1 * n) for n in range(4)], node_metadata=nodes)


def graph_replay() -> Profile:
    """Inference by CUDA graphs: small kernels, but one launch for all of them."""
    return training(
        part("serve", own=us(100), calls=[
            api("cudaGraphLaunch", 1, us(30), kernel("fused_elementwise", 400, us(4)),
                kernel(TENSOR, 60, us(30))),
            api(SYNC, 1, us(3_300))]),
    )  # fmt: skip


def python_ahead() -> Profile:
    """Much Python and hundreds of tiny kernels a step, but large products keep the GPU busy."""
    return training(
        part("step", "Beam.extend", own=us(4_000), entries=64),
        part("step", "update", own=us(200), calls=[
            api(LAUNCH, 300, us(5), kernel("vectorized_elementwise_kernel<4, add>", 300, us(2)))]),
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 40, us(5), kernel(TENSOR, 40, us(250)))]),
        part("step", "end", calls=[api(SYNC, 1, us(4_300))]),
    )  # fmt: skip


def read_when_ready() -> Profile:
    """Events of a stopwatch and a few small results are read when the GPU is done anyway."""
    return training(
        part("step", FORWARD, own=us(600), calls=[
            api(LAUNCH, 40, us(5), kernel(TENSOR, 40, us(150)))]),
        part("step", "Stopwatch.layer", own=us(200), entries=40, calls=[
            api("cudaEventRecord", 80, us(2))]),
        part("step", "metrics", own=us(50), calls=[
            api("cudaMemcpyAsync", 2, us(9), copy("DtoH", 2, us(2), 64, "from device to pinned")),
            api("cudaEventSynchronize", 1, us(4_850))]),
    )  # fmt: skip


def memory_from_a_pool() -> Profile:
    """A workspace comes from a stream's pool in each step; a large one is made once."""
    return training(
        part("step", "Workspace.__enter__", own=us(20), calls=[api("cudaMallocAsync", 8, us(3))]),
        part("step", FORWARD, own=us(400), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(90), flop=1.0e10)),
            api(LAUNCH, 10, us(5), kernel("direct_copy_kernel_cuda<bf16>", 10, us(40), flop=0))]),
        part("step", "end", calls=[api("cudaFreeAsync", 8, us(3)), api(SYNC, 1, us(4_100))]),
    )  # fmt: skip


def old_and_narrow() -> Profile:
    """FP32 on a V100, which has no TF32; embeddings move a fifth of the time."""
    return training(
        part("step", FORWARD, own=us(400), calls=[
            api(LAUNCH, 30, us(5), kernel("volta_sgemm_128x64_tn", 30, us(200), flop=1.0e9)),
            api(LAUNCH, 4, us(5), kernel("indexSelectLargeIndex<float>", 4, us(300), flop=0))]),
        part("step", "end", calls=[api(SYNC, 1, us(6_600))]),
        gpu="Tesla V100-SXM2-16GB", capability="7.0",
    )  # fmt: skip


def products_of_vectors() -> Profile:
    """TF32 where it helps; what is left in FP32 is no product of matrices."""
    return training(
        part("step", FORWARD, own=us(400), calls=[
            api(LAUNCH, 30, us(5), kernel("sm80_xmma_gemm_f32f32_tf32f32_f32_tn", 30, us(100))),
            api(LAUNCH, 30, us(5), kernel("gemv2T_kernel_val<float, 128, 16>", 30, us(4)))]),
        part("step", "end", calls=[api(SYNC, 1, us(2_500))]),
        gpu="NVIDIA A100-SXM4-80GB", capability="8.0",
    )  # fmt: skip


def loader_keeps_up() -> Profile:
    """Batches that are in memory, cut and put together in the training's own process."""
    return training(
        part(DATA, ALONE, own=us(200)),
        part("step", FORWARD, own=us(700), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(90)))]),
        part("step", BACKWARD, own=us(300), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(100)))]),
        part("step", "end", calls=[api(SYNC, 1, us(7_700))]),
        once=[(IMPORT, ms(2_600))],
    )  # fmt: skip


def _traced(time: GpuTime) -> Profile:
    """A training whose GPU's time is known."""
    return training(
        part("step", FORWARD, own=us(900), calls=[
            api(LAUNCH, 80, us(5), kernel(TENSOR, 80, us(150)))]),
        part("step", "log_loss", calls=[api(SYNC, 1, us(10_000))]),
        node_metadata={0: {f"{TIME}1": time.text()}},
    )  # fmt: skip


def reduces_beside_products() -> Profile:
    """Half of the time gradients are reduced, but products run meanwhile."""
    between = Idle("between kernels", int(ms(50)), 4_000, int(us(2)), (("cudaLaunchKernel", 1),))
    return _traced(GpuTime(int(ms(2_350)), int(ms(40)), int(ms(10)), (between,), "slices"))


def warm_up_at_the_start() -> Profile:
    """Code is loaded and memory allocated once, in a twentieth of the trace each."""
    once = (
        Idle("memory allocation", int(ms(130)), 3, int(ms(40)), (("cudaMalloc", 1),)),
        Idle("long launch call", int(ms(100)), 9, int(ms(19)), (("cudaLaunchKernel", 1),)),
    )
    return _traced(GpuTime(int(ms(2_390)), 0, int(ms(10)), once, "slices"))


HEALTHY = (
    *(
        well_fed,
        even_ranks,
        graph_replay,
        python_ahead,
        read_when_ready,
        memory_from_a_pool,
        reduces_beside_products,
        warm_up_at_the_start,
    ),
    *(old_and_narrow, products_of_vectors, loader_keeps_up),
)
