"""Trainings on a GPU with nothing to find: they look like faults to those who do not think."""

from __future__ import annotations

from taupy.model.profile import Profile
from tests.findings.gpu_faults import (
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


HEALTHY = (well_fed, even_ranks, graph_replay)
