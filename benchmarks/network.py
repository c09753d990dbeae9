"""What recording layers and backward passes costs a training step, and what other profilers cost.

    python benchmarks/network.py                     steps of three networks
    python benchmarks/network.py --whole 20          whole processes of about 20 s, storing included
    python benchmarks/network.py --keep FILE         add to the sessions that FILE has from before

ResNet-18 (torchvision; batch 8, 64x64), a GPT-2 of 4 layers (transformers, random weights) and a
toy of 123 modules run on one core. In a session, one worker per tool trains in turns; with
`--whole`, each tool runs one whole process. The table shows by how much the CPU time of a step, or
of all processes of a run, exceeds that without a tool in the same session (median and middle half;
the range for fewer than four sessions), and the cost of an event, which is a module call or an
autograd node.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import tools

HERE = Path(__file__).resolve()
TOOLS = {
    "taupy": ("--no-watch",),
    "taupy --no-autograd": ("--no-watch", "--no-autograd"),
    "taupy --no-layers": ("--no-watch", "--no-layers"),
    "control": None,
    "torch.profiler": None,
    "torch.profiler, modules and stacks": None,
    "scalene --cpu-only": None,
    "scalene --memory": None,
}
"""Without options, Scalene runs torch.profiler, too, and ran on after the program's end."""

STEPS = {"resnet18": 2, "gpt2": 4, "toy": 20}
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


def train(name: str, steps: int, tool: str) -> None:
    step, _ = network(name)
    with profiled(tool):
        for _ in range(steps):
            step()


# ------------------------------------------------------------------ the driver


def command(tool: str, folder: Path, *arguments: str) -> list[str]:
    program = [str(HERE), *arguments]
    if TOOLS.get(tool) is not None:
        return [*tools.taupy_run(folder, *TOOLS[tool]), *program]
    if tool.startswith("scalene"):
        scalene = [sys.executable, "-m", "scalene", "run", *tool.split()[1:]]
        return [*scalene, "-o", str(folder / "scalene.json"), *program]
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


class Session(NamedTuple):
    """CPU time [s] by tool: of a step (the median of the rounds), or of whole processes."""

    network: str
    what: str
    events: float
    """Of a step; 0: not counted."""
    seconds: dict[str, float]
    load: float


def steps_session(name: str, chosen: list[str], rounds: int, folder: Path) -> Session:
    """The tool that begins changes from round to round."""
    workers = {tool: Worker(name, tool, folder) for tool in ("native", *chosen)}
    count = {tool: running.answer() for tool, running in workers.items()}["native"]
    taken: dict[str, list[float]] = {tool: [] for tool in workers}
    order = list(workers)
    load = os.getloadavg()[0]
    for number in range(rounds + 1):
        order = order[1:] + order[:1]
        for tool in order:
            took = workers[tool].round() / STEPS[name]
            if number:  # the first round warms up
                taken[tool].append(took)
    for running in workers.values():
        running.end()
    medians = {tool: statistics.median(times) for tool, times in taken.items()}
    return Session(name, "a step", count, medians, load)


def whole_session(name: str, chosen: list[str], steps: int, folder: Path, turn: int) -> Session:
    """The tool that begins changes from session to session."""
    order = ["native", *chosen]
    order = order[turn % len(order) :] + order[: turn % len(order)]
    load = os.getloadavg()[0]
    seconds = {tool: cpu_s(command(tool, folder, *train_words(name, steps, tool)), folder)
               for tool in order}  # fmt: skip
    return Session(name, f"{steps} steps", 0, seconds, load)


def train_words(name: str, steps: int, tool: str) -> list[str]:
    return ["train", name, str(steps), tool]


def steps_of(name: str, seconds: float, folder: Path) -> int:
    """How many steps take about so long."""
    many = 25 * STEPS[name]
    short, longer = (cpu_s(command("native", folder, *train_words(name, steps, "native")), folder)
                     for steps in (1, 1 + many))  # fmt: skip
    return max(1, round(seconds * many / (longer - short)))


def cpu_s(words: list[str], folder: Path) -> float:
    """CPU time of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, cwd=folder, env=tools.environment(folder),
                   stdout=subprocess.DEVNULL)  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def spread(values: list[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile; of few values, the range instead of the quartiles."""
    if len(values) < 4:
        return min(values), statistics.median(values), max(values)
    low, middle, high = statistics.quantiles(values, n=4)
    return low, middle, high


def show(sessions: list[Session]) -> None:
    """Print a row per tool. The layout of a process's memory makes it faster or slower than others
    for as long as it lives, so rounds are summarized per session, and sessions are compared."""
    print(
        "| network | what | native, ms | events | tool | sessions | slower by, % | an event, ns |"
    )
    print("| --- | --- | ---: | ---: | --- | ---: | ---: | ---: |")
    for name, what in dict.fromkeys((session.network, session.what) for session in sessions):
        of_it = [session for session in sessions if (session.network, session.what) == (name, what)]
        native = statistics.median(session.seconds["native"] for session in of_it)
        for tool in dict.fromkeys(tool for session in of_it for tool in session.seconds):
            if tool == "native":
                continue
            with_it = [session for session in of_it if tool in session.seconds]
            added = [session.seconds[tool] - session.seconds["native"] for session in with_it]
            shares = [
                100 * more / session.seconds["native"]
                for more, session in zip(added, with_it, strict=True)
            ]
            low, middle, high = spread(shares)
            row = f"| {name} | {what} | {1e3 * native:.2f} | {of_it[0].events:.0f} | {tool} "
            row += f"| {len(with_it)} | {middle:+.1f} ({low:+.1f} to {high:+.1f}) "
            if of_it[0].events:
                cheap, cost, dear = spread(
                    [
                        1e9 * more / session.events
                        for more, session in zip(added, with_it, strict=True)
                    ]
                )
                row += f"| {cost:.0f} ({cheap:.0f} to {dear:.0f}) |"
            else:
                row += "| |"
            print(row)
    loads = [session.load for session in sessions]
    print(f"\nload {min(loads):.1f} to {max(loads):.1f}")


def kept(file: Path | None) -> list[Session]:
    if file is None or not file.exists():
        return []
    return [Session(**json.loads(line)) for line in file.read_text().splitlines()]


def measure(arguments: argparse.Namespace, names: list[str], chosen: list[str]) -> list[Session]:
    """The sessions of the file and the new ones, which are kept there as soon as they end."""
    sessions = kept(arguments.keep)
    with tempfile.TemporaryDirectory(prefix="taupy-benchmark-") as text:
        folder = Path(text)
        tools.set_up_torch(tools.environment(folder))
        for name in names:
            wholes = [
                session for session in sessions if session.network == name and not session.events
            ]
            steps = 0
            if arguments.whole:
                for tool in chosen:  # taupy compiles its libraries
                    if TOOLS.get(tool) is not None:
                        cpu_s(command(tool, folder, *train_words(name, 1, tool)), folder)
                # All sessions of a file have as many steps as the first.
                steps = int(wholes[0].what.split()[0]) if wholes else 0
                steps = steps or steps_of(name, arguments.whole, folder)
            for number in range(arguments.sessions):
                if arguments.whole:
                    session = whole_session(name, chosen, steps, folder, len(wholes) + number)
                else:
                    session = steps_session(name, chosen, arguments.rounds, folder)
                sessions.append(session)
                if arguments.keep is not None:
                    with arguments.keep.open("a") as file:
                        file.write(json.dumps(session._asdict()) + "\n")
    return sessions


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        return worker(*sys.argv[2:4])
    if sys.argv[1:2] == ["train"]:
        return train(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    parser = argparse.ArgumentParser(description="What layers cost a training step.")
    parser.add_argument("--sessions", type=int, default=5, help="fresh processes so many times")
    parser.add_argument("--rounds", type=int, default=6, help="in a session; not with --whole")
    parser.add_argument("--networks", type=tools.some_of(STEPS), default=[*STEPS])
    named = {tool.replace(", ", ";"): tool for tool in TOOLS}
    parser.add_argument("--tools", type=tools.some_of(named), default=[*named])
    parser.add_argument("--whole", type=float, metavar="SECONDS")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="sessions of this and other calls"
    )
    arguments = parser.parse_args()
    needs = {"resnet18": "torchvision", "gpt2": "transformers"}
    names = [
        name
        for name in arguments.networks
        if importlib.util.find_spec(needs.get(name, "torch")) is not None
    ]
    chosen = [named[name] for name in arguments.tools]
    if importlib.util.find_spec("scalene") is None:
        chosen = [tool for tool in chosen if not tool.startswith("scalene")]
    print(f"{tools.machine()}\n")
    show(measure(arguments, names, chosen))
    return None


if __name__ == "__main__":
    main()
