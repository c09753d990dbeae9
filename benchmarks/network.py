"""What recording layers and backward passes costs a training step, and what other profilers cost.

    python benchmarks/network.py                     steps of three networks
    python benchmarks/network.py --whole 20          whole processes of about 20 s, storing included

ResNet-18 (torchvision; batch 8, 64x64), a GPT-2 of 4 layers (transformers, random weights) and a
toy of 123 modules run on one core. In a session, one worker per tool trains in turns. The table
shows by how much the CPU time of a step exceeds that without a tool in the same session (median and
middle half; the range for fewer than four sessions), and the cost of an event, which is a module
call or an autograd node.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tools

HERE = Path(__file__).resolve()
TOOLS = {
    "taupy": ("--no-watch",),
    "taupy --no-autograd": ("--no-watch", "--no-autograd"),
    "taupy --no-layers": ("--no-watch", "--no-layers"),
    "control": None,
    "torch.profiler": None,
    "torch.profiler, modules and stacks": None,
    "scalene": None,
}
Taken = dict[str, list[float]]
STEPS = {"toy": 20, "gpt2": 4, "resnet18": 2}
"""Steps in a round."""


# ------------------------------------------------------------------ in the worker


def network(name: str):
    """A training step, and its forward pass alone, which returns the loss."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    if name == "resnet18":
        from torchvision.models import resnet18

        net, x, y = resnet18(num_classes=10), torch.randn(8, 3, 64, 64), torch.arange(8)
        loss_of = nn.CrossEntropyLoss()
        run = lambda: loss_of(net(x), y)  # noqa: E731
    elif name == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        sizes = {"n_layer": 4, "n_head": 4, "n_embd": 256, "vocab_size": 5000}
        net = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
        x = torch.randint(0, 5000, (4, 128))
        run = lambda: net(x, labels=x).loss  # noqa: E731
    else:
        net, x, y = toy(), torch.randn(2, 8, 16), torch.randint(0, 10, (16,))
        loss_of = nn.CrossEntropyLoss()
        run = lambda: loss_of(net(x).flatten(0, 1), y)  # noqa: E731
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        run().backward()
        optimizer.step()

    return step, run


def toy():
    """123 modules that do very little: 12 blocks of 10, a head, the sequence and a loss."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
            self.f1, self.f2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
            self.act = nn.ReLU(inplace=True)

        def forward(self, x):
            h = self.ln1(x)
            a = torch.softmax(self.q(h) @ self.k(h).transpose(-1, -2), -1) @ self.v(h)
            x = x + self.o(a)
            return x + self.f2(self.act(self.f1(self.ln2(x))))

    return nn.Sequential(*(Block(16) for _ in range(12)), nn.Linear(16, 10))


def events(run) -> int:
    """The number of module calls and of autograd nodes in one step."""
    from torch.nn.modules import module

    calls = 0

    def count(*_) -> None:
        nonlocal calls
        calls += 1

    hook = module.register_module_forward_pre_hook(count)
    loss = run()
    hook.remove()
    nodes, todo = set(), [loss.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            todo += [after for after, _ in node.next_functions]
    return calls + len(nodes)


def profiled(tool: str):
    import contextlib

    from torch.profiler import ProfilerActivity, profile

    if not tool.startswith("torch.profiler"):
        return contextlib.nullcontext()
    more = {"with_stack": True, "with_modules": True} if "," in tool else {}
    return profile(activities=[ProfilerActivity.CPU], **more)


def worker(name: str, tool: str) -> None:
    """Answers each line with the CPU time [s] of a round."""
    step, run = network(name)
    for _ in range(5):
        step()
    print(json.dumps(events(run)), flush=True)
    for _ in sys.stdin:
        with profiled(tool):
            began = time.process_time()
            for _ in range(STEPS[name]):
                step()
            took = time.process_time() - began
        print(took, flush=True)


def train(name: str, steps: int) -> None:
    step, _ = network(name)
    for _ in range(steps):
        step()


# ------------------------------------------------------------------ the driver


def command(tool: str, folder: Path, *arguments: str) -> list[str]:
    program = [str(HERE), *arguments]
    if TOOLS.get(tool) is not None:
        return [*tools.taupy_run(folder, *TOOLS[tool]), *program]
    if tool == "scalene":
        return [
            sys.executable,
            "-m",
            "scalene",
            "run",
            "-o",
            str(folder / "scalene.json"),
            *program,
        ]
    return [sys.executable, *program]


class Worker:
    def __init__(self, name: str, tool: str, folder: Path) -> None:
        self.process = subprocess.Popen(
            command(tool, folder, "worker", name, tool),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=tools.environment(folder),
            cwd=folder,
        )

    def answer(self) -> float:
        return float(self.process.stdout.readline())

    def round(self) -> float:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def session(name: str, chosen: list[str], rounds: int, folder: Path) -> tuple[float, Taken]:
    """The events of a step, and for each tool the seconds of a step in each round. The tool that
    begins changes from round to round."""
    workers = {tool: Worker(name, tool, folder) for tool in ("native", *chosen)}
    count = {tool: running.answer() for tool, running in workers.items()}["native"]
    taken: Taken = {tool: [] for tool in workers}
    order = list(workers)
    for number in range(rounds + 1):
        order = order[1:] + order[:1]
        for tool in order:
            took = workers[tool].round() / STEPS[name]
            if number:  # the first round warms up
                taken[tool].append(took)
    for running in workers.values():
        running.end()
    return count, taken


def spread(values: list[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile; of few values, the range instead of the quartiles."""
    if len(values) < 4:
        return min(values), statistics.median(values), max(values)
    low, middle, high = statistics.quantiles(values, n=4)
    return low, middle, high


def measure(name: str, chosen: list[str], sessions: int, rounds: int, folder: Path) -> None:
    """Print a row per tool. The layout of a process's memory makes it faster or slower than others
    for as long as it lives, so rounds are summarized per session, and sessions are compared."""
    all_taken = [session(name, chosen, rounds, folder) for _ in range(sessions)]
    count = all_taken[0][0]
    medians = [
        {tool: statistics.median(times) for tool, times in taken.items()} for _, taken in all_taken
    ]
    native = statistics.median(by_tool["native"] for by_tool in medians)
    for tool in chosen:
        low, middle, high = spread(
            [100 * (by_tool[tool] / by_tool["native"] - 1) for by_tool in medians]
        )
        cheap, cost, dear = spread(
            [1e9 * (by_tool[tool] - by_tool["native"]) / count for by_tool in medians]
        )
        print(
            f"| {name} | {1e3 * native:.2f} | {count:.0f} | {tool} "
            f"| {middle:+.1f} ({low:+.1f} to {high:+.1f}) "
            f"| {cost:.0f} ({cheap:.0f} to {dear:.0f}) |"
        )


def cpu_s(words: list[str], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, cwd=folder, env=tools.environment(folder),
                   stdout=subprocess.DEVNULL)  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def whole(name: str, seconds: float, rounds: int, folder: Path) -> None:
    """CPU time of all processes, over native."""
    short = cpu_s(command("native", folder, "train", name, "1"), folder)
    longer = cpu_s(command("native", folder, "train", name, "21"), folder)
    steps = str(max(1, round(seconds / ((longer - short) / 20))))
    cpu_s(command("taupy", folder, "train", name, "1"), folder)  # compiles its library
    ratios = []
    for _ in range(rounds):
        plain = cpu_s(command("native", folder, "train", name, steps), folder)
        ratios.append(cpu_s(command("taupy", folder, "train", name, steps), folder) / plain)
    shown = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    print(f"{name}, {steps} steps: {statistics.median(ratios):.3f} x native ({shown})")


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        return worker(*sys.argv[2:4])
    if sys.argv[1:2] == ["train"]:
        return train(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser(description="What layers cost a training step.")
    parser.add_argument("--sessions", type=int, default=5, help="fresh processes so many times")
    parser.add_argument("--rounds", type=int, default=6, help="in a session")
    parser.add_argument("--networks", default="resnet18,gpt2,toy")
    parser.add_argument("--tools", default=",".join(TOOLS).replace(", ", ";"))
    parser.add_argument("--whole", type=float, metavar="SECONDS")
    arguments = parser.parse_args()
    needs = {"resnet18": "torchvision", "gpt2": "transformers"}
    names = [
        name
        for name in arguments.networks.split(",")
        if importlib.util.find_spec(needs.get(name, "torch")) is not None
    ]
    chosen = [tool.replace(";", ", ") for tool in arguments.tools.split(",")]
    if importlib.util.find_spec("scalene") is None:
        chosen = [tool for tool in chosen if tool != "scalene"]
    with tempfile.TemporaryDirectory(prefix="taupy-benchmark-") as text:
        print(f"{tools.machine()}; {arguments.sessions} x {arguments.rounds} rounds\n")
        if arguments.whole:
            for name in names:
                whole(name, arguments.whole, arguments.sessions, Path(text))
            return None
        print("| network | step, ms | events | tool | slower by, % | an event, ns |")
        print("| --- | ---: | ---: | --- | ---: | ---: |")
        for name in names:
            measure(name, chosen, arguments.sessions, arguments.rounds, Path(text))
    return None


if __name__ == "__main__":
    main()
