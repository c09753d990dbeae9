"""Twenty trainings of which one rank is slow, each for another reason.

    torchrun --nproc-per-node 2 -m taupy run variants.py NAME

`@slow(rank, ...)` says which rank is slow, and what has to be named: the routine, the program's
routine from which it is called, or its phase.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 20
ITERATIONS = 250_000
"""Some 15 ms of Python."""

EXPECTED: dict[str, tuple[int | None, tuple[str, ...]]] = {}
VARIANTS = {}


def slow(rank: int | None, *names: str):
    """Declares a variant; rank None: the ranks take turns."""

    def declare(variant):
        EXPECTED[variant.__name__] = rank, names
        VARIANTS[variant.__name__] = variant
        return variant

    return declare


def burn(iterations: int = ITERATIONS) -> int:
    total = 0
    for number in range(iterations):
        total += number & 3
    return total


class Numbers(Dataset):
    def __len__(self):
        return 32 * STEPS

    def __getitem__(self, index):
        return torch.full((64,), float(index % 7)), torch.tensor([float(index % 3)])


class Training:
    """What a variant may change; `is_slow` on the rank that is to be."""

    def __init__(self, rank: int, is_slow: bool) -> None:
        self.rank, self.is_slow = rank, is_slow
        torch.manual_seed(0)
        self.net = nn.Sequential(*(nn.Linear(64, 64) for _ in range(3)), nn.Linear(64, 1))
        self.loss = nn.functional.mse_loss
        self.data: Dataset = Numbers()
        self.batch, self.collate, self.workers = 32, None, 0
        self.optimizer = torch.optim.SGD
        self.before = self.after = lambda step: None

    def run(self) -> None:
        net = nn.parallel.DistributedDataParallel(self.net)
        optimizer = self.optimizer(net.parameters(), 0.01)
        loader = DataLoader(
            self.data, self.batch, collate_fn=self.collate, num_workers=self.workers
        )
        for step, (given, wanted) in enumerate(loader):
            self.before(step)
            optimizer.zero_grad()
            loss = self.loss(net(given), wanted)
            loss.backward()
            optimizer.step()
            self.after(step)


@slow(1, "read_sample")
def slow_data(training):
    def read_sample(index):
        return burn(ITERATIONS // 20)

    class Slow(Numbers):
        def __getitem__(self, index):
            read_sample(index)
            return super().__getitem__(index)

    if training.is_slow:
        training.data = Slow()


@slow(1, "data")
def slow_worker_of_the_loader(training):
    class Slow(Numbers):
        def __getitem__(self, index):
            time.sleep(0.001)
            return super().__getitem__(index)

    training.workers = 1
    if training.is_slow:
        training.data = Slow()


@slow(1, "pad")
def slow_collate(training):
    def pad(samples):
        burn()
        return torch.utils.data.default_collate(samples)

    if training.is_slow:
        training.collate = pad


@slow(1, "Slow.forward")
def slow_layer(training):
    class Slow(nn.Module):
        def forward(self, given):
            total = 0
            for number in range(ITERATIONS):
                total += number & 1
            return given

    if training.is_slow:
        training.net.insert(1, Slow())


@slow(1, "watch_gradient")
def slow_backward(training):
    def watch_gradient(module, given, gradient):
        burn()

    if training.is_slow:
        training.net[1].register_full_backward_hook(watch_gradient)


@slow(1, "SlowSGD.step")
def slow_optimizer(training):
    class SlowSGD(torch.optim.SGD):
        def step(self, closure=None):
            burn()
            return super().step(closure)

    if training.is_slow:
        training.optimizer = SlowSGD


@slow(1, "tidy")
def garbage_collection(training):
    kept = [[number] for number in range(200_000)] if training.is_slow else []

    def tidy(step):
        gc.collect()
        return kept

    training.before = tidy


@slow(1, "interrupted", "burn")
def cpu_contention(training):
    """The other rank has a processor of its own; this one shares its with six other programs."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[training.rank]})
    training.loss = lambda given, wanted: burn() * 0 + nn.functional.mse_loss(given, wanted)
    spins = (
        "import os, time\nend, parent = time.time() + 60, os.getppid()\nprint(flush=True)\n"
        "while time.time() < end and os.getppid() == parent: pass"
    )

    def share(step):
        bare = {name: text for name, text in os.environ.items() if name != "TAUPY_BOOT"}
        for _ in range(6 if step == 0 else 0):
            begun = subprocess.Popen(
                [sys.executable, "-S", "-c", spins], env=bare, stdout=subprocess.PIPE
            )
            begun.stdout.readline()

    if training.is_slow:
        training.after = share


@slow(1, "hiccup")
def one_step_in_fifty(training):
    training.batch = 4  # 160 steps

    def hiccup(step):
        if step % 50 == 40:
            burn(10 * ITERATIONS)

    if training.is_slow:
        training.before = hiccup


@slow(None, "resample")
def ranks_take_turns(training):
    def resample(step):
        if step % 2 == training.rank:
            burn(4 * ITERATIONS)  # each step is judged, perhaps beside other tests

    training.before = resample


@slow(0, "save_checkpoint", "checkpoint")
def checkpoint_on_one_rank(training):
    state = torch.zeros(1_000_000)

    def save_checkpoint(step):
        if step % 3 == 0:
            with open("checkpoint.pt", "wb") as file:
                torch.save({"net": training.net.state_dict(), "more": state}, file)
                file.flush()
                os.fsync(file.fileno())

    if training.is_slow:
        training.after = save_checkpoint


@slow(0, "evaluate")
def validation_on_one_rank(training):
    def evaluate(step):
        if step % 4 == 3:
            with torch.no_grad():
                for start in range(0, 320, 8):
                    given, _ = zip(*(training.data[at] for at in range(start, start + 32)),
                                   strict=True)  # fmt: skip
                    training.net(torch.stack(given)).sum().item()

    if training.is_slow:
        training.after = evaluate


@slow(0, "write_log")
def logging_on_one_rank(training):
    def write_log(step):
        with open("log.txt", "a") as file:
            for number in range(20_000):
                file.write(f"{step} {number} {random.random():.6f}\n")

    if training.is_slow:
        training.after = write_log


@slow(1, "forward", "backward")
def uneven_batch(training):
    def collate(samples):
        given, wanted = torch.utils.data.default_collate(samples)
        times = 200 if training.is_slow else 1
        return given.repeat(times, 1), wanted.repeat(times, 1)

    training.collate = collate


@slow(1, "take_turn")
def wait_for_a_lock(training):
    lock = threading.Lock()

    def hold():
        while True:
            with lock:
                time.sleep(0.02)
            time.sleep(0.005)

    def take_turn(step):
        with lock:
            pass

    if training.is_slow:
        threading.Thread(target=hold, daemon=True).start()
        training.before = take_turn


@slow(1, "convert")
def wait_for_a_process(training):
    def convert(step):
        subprocess.run(["sleep", "0.02"], check=True)

    if training.is_slow:
        training.before = convert


@slow(1, "read_shard")
def slow_storage(training):
    def read_shard(step):
        time.sleep(0.02)

    if training.is_slow:
        training.before = read_shard


@slow(1, "focal_loss")
def slow_loss(training):
    def focal_loss(given, wanted):
        weight = 0
        for number in range(ITERATIONS):
            weight += number & 1
        return nn.functional.mse_loss(given, wanted)

    if training.is_slow:
        training.loss = focal_loss


@slow(1, "clip")
def slow_clipping(training):
    def clip(step):
        for parameter in training.net.parameters():
            for value in parameter.grad.flatten().tolist():
                min(max(value, -1.0), 1.0)

    if training.is_slow:
        training.after = clip


@slow(1, "queue_up")
def wait_for_another_process(training):
    """Of multiprocessing, which answers late."""
    ours, theirs = multiprocessing.get_context("fork").Pipe()

    def answer():
        with contextlib.suppress(EOFError, KeyboardInterrupt):
            while theirs.recv() is not None:
                time.sleep(0.015)
                theirs.send(1)

    def queue_up(step):
        ours.send(step)
        ours.recv()

    if training.is_slow:
        threading.Thread(target=answer, daemon=True).start()
        training.before = queue_up


def main(name: str) -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank = dist.get_rank()
    training = Training(rank, EXPECTED[name][0] in (rank, None))
    VARIANTS[name](training)
    training.run()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
