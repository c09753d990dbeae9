"""Trainings with one fault each, which a GPU's profile would show.

Written before the rules were; each is what an engineer finds in such a training.
"""

from __future__ import annotations

from taupy.model.profile import Profile
from tests.findings.trainings import api, copy, kernel, ms, part, routine, training, us

LOADER = "torch/utils/data/dataloader.py"
DATA = routine("_BaseDataLoaderIter.__next__", LOADER, 700, "PHASE_DATA", "PYTHON")
ALONE = routine("_SingleProcessDataLoaderIter._next_data", LOADER, 760)
WORKERS = routine("_MultiProcessingDataLoaderIter._get_data", LOADER, 1200)
SAVE = routine("save", "torch/serialization.py", 900, "PHASE_CHECKPOINT", "PYTHON")
COMPILE = routine("CatchErrorsWrapper.__call__", "torch/_dynamo/convert_frame.py", 1300,
                  "PHASE_COMPILE", "PYTHON")  # fmt: skip
REDUCE = routine("all_reduce", "torch/distributed/distributed_c10d.py", 2700,
                 "PHASE_COMMUNICATION", "PYTHON")  # fmt: skip
FORWARD = routine("Net [Net]", None, None, "LAYER")
BACKWARD = routine("Tensor.backward", "torch/_tensor.py", 500, "PHASE_BACKWARD", "PYTHON")
IMPORT = routine("import torch", None, None, "IMPORT")

TENSOR = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1"
LAUNCH, SYNC = "cudaLaunchKernel", "cudaStreamSynchronize"


def tiny_kernels() -> Profile:
    """An optimizer and a cell written out: hundreds of kernels of 2 us a step."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 300, us(6), kernel("vectorized_elementwise_kernel<4, add>", 300, us(2)))]),
        part("step", "update", own=us(400), calls=[
            api(LAUNCH, 400, us(6), kernel("vectorized_elementwise_kernel<4, mul>", 400, us(2)))]),
        part("step", BACKWARD, own=us(200), calls=[
            api(LAUNCH, 40, us(6), kernel(TENSOR, 40, us(20)))]),
    )  # fmt: skip


def pageable_copies() -> Profile:
    """Batches of 64 MiB from pageable memory: 3.3 GB/s, and the host stands still meanwhile."""
    return training(
        part("step", "to_device", calls=[
            api("cudaMemcpyAsync", 1, ms(20),
                copy("HtoD", 1, ms(20), 64 << 20, "from pageable to device"))]),
        part("step", FORWARD, own=us(800), calls=[
            api(LAUNCH, 60, us(5), kernel(TENSOR, 60, us(300)))]),
        part("step", BACKWARD, own=us(400), calls=[
            api(LAUNCH, 90, us(5), kernel(TENSOR, 90, us(220)))]),
        part("step", "end", calls=[api(SYNC, 1, ms(36))]),
    )  # fmt: skip


def small_copies() -> Profile:
    """Each sample's label and length are copied by themselves."""
    return training(
        part("step", "collate", own=us(200), calls=[
            api("cudaMemcpyAsync", 600, us(9),
                copy("HtoD", 600, us(2), 64, "from pinned to device"))]),
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(35)))]),
        part("step", BACKWARD, own=us(300), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(35)))]),
    )  # fmt: skip


def item_each_step() -> Profile:
    """`loss.item()` after the forward pass; the metrics in Python after it leave the GPU idle."""
    return training(
        part("step", FORWARD, own=us(600), calls=[
            api(LAUNCH, 60, us(5), kernel(TENSOR, 60, us(70)))]),
        part("step", "running_loss", own=us(100), calls=[api(SYNC, 1, us(3_300))]),
        part("step", "update_metrics", own=us(2_900)),
        part("step", BACKWARD, own=us(700), calls=[
            api(LAUNCH, 60, us(5), kernel(TENSOR, 60, us(40)))]),
        part("step", "accuracy", own=us(100), calls=[api(SYNC, 1, us(1_400))]),
    )  # fmt: skip


def synchronize_each_layer() -> Profile:
    """A stopwatch around each layer synchronises the device forty times a step."""
    return training(
        part("step", "Stopwatch.layer", own=us(4_000), entries=40, calls=[
            api(LAUNCH, 40, us(5), kernel(TENSOR, 40, us(140))),
            api("cudaDeviceSynchronize", 40, us(150))]),
        part("step", "Stopwatch.report", own=us(300)),
    )  # fmt: skip


def python_between_launches() -> Profile:
    """Beams of a search are kept as Python objects between the launches."""
    return training(
        part("step", "beam_search", own=us(300)),
        part("step", "beam_search", "Beam.extend", own=us(7_000), entries=64),
        part("step", "beam_search", FORWARD, own=us(600), calls=[
            api(LAUNCH, 40, us(5), kernel(TENSOR, 40, us(45)))]),
    )  # fmt: skip


def loader_without_workers() -> Profile:
    """Pictures are decoded in the training's own process."""
    return training(
        part(DATA, ALONE, own=us(200)),
        part(DATA, ALONE, routine("Pictures.__getitem__", "data.py", 20), own=ms(9), entries=32),
        part("step", FORWARD, own=us(700), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(50)))]),
        part("step", BACKWARD, own=us(300), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(60)))]),
        part("step", "end", calls=[api(SYNC, 1, us(4_000))]),
        once=[(IMPORT, ms(2_600))],
    )  # fmt: skip


def loader_with_few_workers() -> Profile:
    """Workers are there, but too few: the training waits for their queue."""
    return training(
        part(DATA, WORKERS, own=ms(6)),
        part("step", FORWARD, own=us(700), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(50)))]),
        part("step", BACKWARD, own=us(300), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(60)))]),
        part("step", "end", calls=[api(SYNC, 1, us(4_000))]),
    )  # fmt: skip


def single_precision() -> Profile:
    """FP32 products on an H100 whose TF32 was never allowed."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 30, us(5), kernel("ampere_sgemm_128x64_tn", 30, us(300)))]),
        part("step", BACKWARD, own=us(400), calls=[
            api(LAUNCH, 60, us(5), kernel("ampere_sgemm_128x64_nt", 60, us(280))),
            api(LAUNCH, 30, us(5), kernel("vectorized_elementwise_kernel<4, add>", 30, us(15)))]),
        part("step", "end", calls=[api(SYNC, 1, us(25_000))]),
    )  # fmt: skip


def half_without_tensor_cores() -> Profile:
    """Half precision with a width that is no multiple of 8: kernels without tensor cores."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 40, us(5), kernel("ampere_fp16_sgemm_fp16_64x64_tn", 40, us(260)))]),
        part("step", BACKWARD, own=us(400), calls=[
            api(LAUNCH, 40, us(5), kernel("ampere_fp16_sgemm_fp16_128x64_nt", 40, us(240)))]),
        part("step", "end", calls=[api(SYNC, 1, us(19_500))]),
        gpu="NVIDIA A100-SXM4-80GB", capability="8.0",
    )  # fmt: skip


def kernels_without_flop() -> Profile:
    """Tensors change their layout before and after each product."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 40, us(5), kernel(TENSOR, 40, us(100), flop=2.0e10)),
            api(LAUNCH, 80, us(5), kernel("direct_copy_kernel_cuda<bf16>", 80, us(150), flop=0))]),
        part("step", "end", calls=[api(SYNC, 1, us(15_000))]),
    )  # fmt: skip


def allocation_each_step() -> Profile:
    """A workspace is allocated and freed in every step, which waits for the device."""
    return training(
        part("step", FORWARD, own=us(600), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(70)))]),
        part("step", "Workspace.__enter__", own=us(50), calls=[api("cudaMalloc", 8, us(400))]),
        part("step", "Workspace.__exit__", own=us(50), calls=[api("cudaFree", 8, us(600))]),
    )  # fmt: skip


def results_to_host() -> Profile:
    """All outputs are copied to the host in each step, by a call that waits for them."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(60)))]),
        part("step", "collect_outputs", own=us(200), calls=[
            api("cudaMemcpy", 1, us(14_500),
                copy("DtoH", 1, us(12_000), 40_000_000, "from device to pageable"))]),
    )  # fmt: skip


def tokens_drawn_in_python() -> Profile:
    """Each of 16 tokens a step is drawn in Python; the network is one graph."""
    return training(
        part("step", "generate", "draw", own=us(4_500), entries=16),
        part("step", "generate", FORWARD, own=us(300), calls=[
            api("cudaGraphLaunch", 16, us(20), kernel(TENSOR, 320, us(12)))]),
    )  # fmt: skip


def averages_of_parameters() -> Profile:
    """The moving average of each parameter is a kernel of its own."""
    return training(
        part("step", FORWARD, own=us(300), calls=[
            api(LAUNCH, 40, us(5), kernel(TENSOR, 40, us(30)))]),
        part("step", "Average.update", own=us(500), calls=[
            api(LAUNCH, 900, us(5), kernel("vectorized_elementwise_kernel<4, lerp>", 900, us(2)))]),
    )  # fmt: skip


def metrics_one_by_one() -> Profile:
    """Each metric of each class is read by itself, from pinned memory."""
    return training(
        part("step", FORWARD, own=us(300), calls=[
            api(LAUNCH, 40, us(5), kernel(TENSOR, 40, us(40)))]),
        part("step", "Metrics.read", own=us(300), calls=[
            api("cudaMemcpyAsync", 400, us(12),
                copy("DtoH", 400, us(2), 4, "from device to pinned"))]),
    )  # fmt: skip


def staging_each_step() -> Profile:
    """Pinned memory is allocated for each batch."""
    return training(
        part("step", "Stage.open", own=us(50), calls=[api("cudaHostAlloc", 2, us(1_800))]),
        part("step", FORWARD, own=us(600), calls=[
            api(LAUNCH, 50, us(5), kernel(TENSOR, 50, us(90)))]),
        part("step", "Stage.close", own=us(50), calls=[api("cudaFreeHost", 2, us(900))]),
    )  # fmt: skip


def masks_and_casts() -> Profile:
    """Attention is masked and cast by kernels of their own."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 60, us(5), kernel(TENSOR, 60, us(80), flop=1.0e10)),
            api(LAUNCH, 120, us(5), kernel("masked_fill_kernel<bf16>", 120, us(35), flop=0))]),
        part("step", "end", calls=[api(SYNC, 1, us(8_000))]),
    )  # fmt: skip


def convolutions_in_single() -> Profile:
    """Convolutions in FP32 on an A100, with cudnn.allow_tf32 off."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 30, us(5), kernel("implicit_convolve_sgemm<128, 6, 7>", 30, us(400)))]),
        part("step", "end", calls=[api(SYNC, 1, us(11_800))]),
        gpu="NVIDIA A100-SXM4-80GB", capability="8.0",
    )  # fmt: skip


def odd_vocabulary() -> Profile:
    """A vocabulary of 50,257: the last product does not fit tensor cores on a V100."""
    return training(
        part("step", FORWARD, own=us(500), calls=[
            api(LAUNCH, 40, us(5), kernel("volta_fp16_s884gemm_fp16_128x64_tn", 40, us(60))),
            api(LAUNCH, 2, us(5), kernel("volta_fp16_sgemm_fp16_128x64_nn", 2, us(4_000)))]),
        part("step", "end", calls=[api(SYNC, 1, us(10_000))]),
        gpu="Tesla V100-SXM2-16GB", capability="7.0",
    )  # fmt: skip


def _rank(forward_ms: float, wait_ms: float):
    return [
        part("step", FORWARD, own=ms(forward_ms)),
        part("step", BACKWARD, own=ms(12)),
        part("step", REDUCE, own=ms(1 + wait_ms)),
    ]


def one_slow_rank() -> Profile:
    """Rank 2 has longer sequences than the others, which wait for it in every all_reduce."""
    ranks = [_rank(8, 9), _rank(8, 9), _rank(17, 0), _rank(8, 9)]
    nodes = {number: {"Rank": str(number), "RANK": str(number)} for number in range(4)}
    return training(ranks=ranks, node_metadata=nodes)


def compiled_again() -> Profile:
    """Lengths differ from batch to batch, so the model is compiled for each."""
    return training(
        part("step", COMPILE, own=ms(40)),
        part("step", FORWARD, own=ms(6)),
        part("step", BACKWARD, own=ms(9)),
        once=[(IMPORT, ms(9_000))],
    )


def saved_each_step() -> Profile:
    """The model is saved by torch.save after every step."""
    return training(
        part("step", FORWARD, own=ms(6)),
        part("step", BACKWARD, own=ms(9)),
        part("step", "keep", SAVE, own=ms(7)),
        once=[(IMPORT, ms(3_000))],
    )


FAULTS = (
    *(tiny_kernels, pageable_copies, small_copies, item_each_step, synchronize_each_layer),
    *(python_between_launches, loader_without_workers, loader_with_few_workers),
    *(single_precision, half_without_tensor_cores, kernels_without_flop, allocation_each_step),
    *(tokens_drawn_in_python, averages_of_parameters, metrics_one_by_one, staging_each_step),
    *(masks_and_casts, convolutions_in_single, odd_vocabulary),
    *(results_to_host, one_slow_rank, compiled_again, saved_each_step),
)
