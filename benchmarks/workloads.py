"""Programs for measuring profilers, typical of Python code; each takes about 0.1 s natively.

Each is a function without arguments that checks its own answer, so that a tool that changes the
result is noticed. The call-dense ones do little but call; the goals for the cost of a call refer to
them. `loops`, `threads` and the trainings call little, or on threads that cProfile and
PyEval_SetProfile do not see.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import importlib.util
import json
import math
import random
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Run = Callable[[], object]


class Workload(NamedTuple):
    """`prepare` imports and loads whatever is needed, and returns the function to be timed."""

    name: str
    what: str
    prepare: Callable[[], Run]
    call_dense: bool = True
    needs: str = ""


# ------------------------------------------------------------------ recursion


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


FIBONACCI_CALLS = 2 * 1346269 - 1
"""Calls made by fibonacci(30): 2 F(31) - 1."""


def recursion() -> None:
    assert fibonacci(30) == 832040


def ackermann(m: int, n: int) -> int:
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def deep_recursion() -> None:
    for _ in range(4):
        assert ackermann(3, 6) == 509


# ------------------------------------------------------------------ objects


class Packet:
    """A letter between two stations."""

    def __init__(self, target: Station, hops: int) -> None:
        self.target = target
        self.hops = hops

    @property
    def is_spent(self) -> bool:
        return self.hops == 0


class Station:
    """Takes packets out of its queue and sends them on."""

    def __init__(self, name: int) -> None:
        self.name = name
        self.queue: list[Packet] = []
        self.handled = 0

    def put(self, packet: Packet) -> None:
        self.queue.append(packet)

    def take(self) -> Packet | None:
        return self.queue.pop() if self.queue else None

    def handle(self, packet: Packet, network: Network) -> None:
        self.handled += 1
        self.work(packet)
        if not packet.is_spent:
            network.send(Packet(self.following(network), packet.hops - 1))

    def work(self, packet: Packet) -> int:
        raise NotImplementedError

    def following(self, network: Network) -> Station:
        return network.station(self.name + 1)


class Counter(Station):
    def work(self, packet: Packet) -> int:
        return packet.hops + 1


class Relay(Station):
    def work(self, packet: Packet) -> int:
        return self.weigh(packet) * 2

    def weigh(self, packet: Packet) -> int:
        return packet.hops & 7

    def following(self, network: Network) -> Station:
        return network.station(self.name * 7 + 3)


class Network:
    """Stations, and the list of future events in the order of time."""

    def __init__(self, size: int) -> None:
        self.stations = [Relay(i) if i % 3 else Counter(i) for i in range(size)]
        self.events: list[tuple[int, int]] = []
        self.now = 0

    def station(self, number: int) -> Station:
        return self.stations[number % len(self.stations)]

    def send(self, packet: Packet) -> None:
        packet.target.put(packet)
        heapq.heappush(self.events, (self.now + 1 + packet.hops % 3, packet.target.name))

    def run(self) -> int:
        while self.events:
            self.now, number = heapq.heappop(self.events)
            station = self.stations[number]
            packet = station.take()
            if packet is not None:
                station.handle(packet, self)
        return sum(station.handled for station in self.stations)


def objects() -> None:
    network = Network(23)
    for i in range(100):
        network.send(Packet(network.station(i), 999))
    assert network.run() == 100_000


@functools.total_ordering
class Money:
    """Its operators are only called by the interpreter and by C, not by name."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __add__(self, other: Money) -> Money:
        return Money(self.cents + other.cents)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and self.cents == other.cents

    def __lt__(self, other: Money) -> bool:
        return self.cents < other.cents

    def __hash__(self) -> int:
        return hash(self.cents)

    def __getattr__(self, name: str) -> int:
        if name == "euros":
            return self.cents // 100
        raise AttributeError(name)


def operators() -> None:
    chance = random.Random(1)
    for _ in range(20):
        purses = [Money(chance.randrange(100_000)) for _ in range(4000)]
        ordered = sorted(purses)
        total = Money(0)
        for purse in ordered:
            total = total + purse
        assert total.euros == sum(purse.cents for purse in purses) // 100
        assert len(set(purses)) <= len(purses)
        assert ordered[0] <= ordered[-1]


# ------------------------------------------------------------------ generators


def numbers(count: int) -> Iterator[int]:
    at = 0
    while at < count:
        yield at
        at += 1


def odd(values: Iterable[int]) -> Iterator[int]:
    for value in values:
        if value & 1:
            yield value


def pairs(values: Iterable[int]) -> Iterator[tuple[int, int]]:
    before = 0
    for value in values:
        yield before, value
        before = value


def leaves(depth: int) -> Iterator[int]:
    if depth == 0:
        yield 1
    else:
        yield from leaves(depth - 1)
        yield from leaves(depth - 1)


def generators() -> None:
    for _ in range(30):
        assert sum(b - a for a, b in pairs(odd(numbers(50_000)))) == 49_999
        assert sum(leaves(11)) == 2048


# ------------------------------------------------------------------ C functions


def builtins() -> None:
    """One Python routine that does nothing but call C functions."""
    words = [str(i) for i in range(200)]
    matches = 0
    table: dict[str, int] = {}
    for i in range(4500):
        line = ",".join(words)
        for word in line.split(","):
            if isinstance(word, str) and len(word) > 1 and word.endswith("7"):
                table[word] = table.get(word, 0) + max(i, ord(word[0]))
                matches += 1
    assert matches == 4500 * 19


# ------------------------------------------------------------------ exceptions


class Refused(Exception):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.level = level


def refuse(level: int) -> int:
    if level == 0:
        raise Refused(level)
    return refuse(level - 1) + 1


def attempt(level: int) -> int:
    try:
        return refuse(level)
    except Refused as refused:
        return refused.level
    finally:
        checked(level)


def checked(level: int) -> int:
    try:
        return [10, 20, 30][level]
    except IndexError:
        return -1


def exceptions() -> None:
    assert sum(attempt(i % 5) for i in range(80_000)) == 0


# ------------------------------------------------------------------ closures


def adder(step: int) -> Callable[[int], int]:
    def add(value: int) -> int:
        return value + step

    return add


def composed(*functions: Callable[[int], int]) -> Callable[[int], int]:
    def call(value: int) -> int:
        for function in functions:
            value = function(value)
        return value

    return call


def counted(function: Callable[[int], int]) -> Callable[[int], int]:
    calls = 0

    @functools.wraps(function)
    def wrapper(value: int) -> int:
        nonlocal calls
        calls += 1
        return function(value)

    return wrapper


def closures() -> None:
    chain = counted(composed(adder(1), adder(2), lambda value: value % 1009))
    double = functools.partial(lambda factor, value: value * factor, 2)
    value = 0
    for _ in range(400_000):
        value = double(chain(value)) % 997
    assert sorted(range(20_000), key=lambda i: -i)[0] == 19_999
    assert 0 <= value < 997


# ------------------------------------------------------------------ a little of each


def solutions(size: int) -> Iterator[tuple[int, ...]]:
    def place(row: int, taken: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if row == size:
            yield taken
        for column in range(size):
            if all(is_free(row - i, column - other) for i, other in enumerate(taken)):
                yield from place(row + 1, (*taken, column))

    return place(0, ())


def is_free(rows: int, columns: int) -> bool:
    return columns != 0 and abs(columns) != rows


def queens() -> None:
    for _ in range(8):
        assert sum(1 for _ in solutions(8)) == 92


class Parser:
    """JSON by recursive descent, a character at a time."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def peek(self) -> str:
        while self.text[self.at] in " \n":
            self.at += 1
        return self.text[self.at]

    def expect(self, character: str) -> None:
        if self.peek() != character:
            raise ValueError(f"{character} expected at {self.at}")
        self.at += 1

    def accept(self, character: str) -> bool:
        if self.peek() != character:
            return False
        self.at += 1
        return True

    def value(self) -> Any:
        character = self.peek()
        if character == "{":
            return self.mapping()
        if character == "[":
            return self.sequence()
        if character == '"':
            return self.string()
        return self.number()

    def mapping(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        self.expect("{")
        while not self.accept("}"):
            name = self.string()
            self.expect(":")
            result[name] = self.value()
            self.accept(",")
        return result

    def sequence(self) -> list[Any]:
        result: list[Any] = []
        self.expect("[")
        while not self.accept("]"):
            result.append(self.value())
            self.accept(",")
        return result

    def string(self) -> str:
        self.expect('"')
        end = self.text.index('"', self.at)
        result = self.text[self.at : end]
        self.at = end + 1
        return result

    def number(self) -> int:
        start = self.at
        while self.text[self.at].isdigit():
            self.at += 1
        return int(self.text[start : self.at])


def parsing() -> None:
    data = [{"name": f"n{i}", "values": [i, i + 1, {"deep": [i]}], "id": i} for i in range(700)]
    text = json.dumps(data)
    for _ in range(16):
        assert Parser(text).value() == data


# ------------------------------------------------------------------ scalar autograd


class Scalar:
    """A number that keeps its operands, for automatic differentiation."""

    def __init__(self, value: float, parents: tuple[Scalar, ...] = ()) -> None:
        self.value = value
        self.gradient = 0.0
        self.parents = parents
        self.pull: Callable[[], None] = nothing

    def __add__(self, other: Scalar) -> Scalar:
        out = Scalar(self.value + other.value, (self, other))

        def pull() -> None:
            self.gradient += out.gradient
            other.gradient += out.gradient

        out.pull = pull
        return out

    def __mul__(self, other: Scalar) -> Scalar:
        out = Scalar(self.value * other.value, (self, other))

        def pull() -> None:
            self.gradient += other.value * out.gradient
            other.gradient += self.value * out.gradient

        out.pull = pull
        return out

    def tanh(self) -> Scalar:
        out = Scalar(math.tanh(self.value), (self,))

        def pull() -> None:
            self.gradient += (1 - out.value**2) * out.gradient

        out.pull = pull
        return out

    def backward(self) -> None:
        order: list[Scalar] = []
        seen: set[int] = set()

        def visit(node: Scalar) -> None:
            if id(node) not in seen:
                seen.add(id(node))
                for parent in node.parents:
                    visit(parent)
                order.append(node)

        visit(self)
        self.gradient = 1.0
        for node in reversed(order):
            node.pull()


def nothing() -> None:
    pass


class Neuron:
    def __init__(self, inputs: int, chance: random.Random) -> None:
        self.weights = [Scalar(chance.uniform(-1, 1)) for _ in range(inputs)]
        self.bias = Scalar(0.0)

    def __call__(self, inputs: list[Scalar]) -> Scalar:
        total = self.bias
        for weight, value in zip(self.weights, inputs, strict=True):
            total = total + weight * value
        return total.tanh()

    def parameters(self) -> list[Scalar]:
        return [*self.weights, self.bias]


def autograd() -> None:
    chance = random.Random(3)
    hidden = [Neuron(2, chance) for _ in range(8)]
    last = Neuron(8, chance)
    points = [(chance.uniform(-1, 1), chance.uniform(-1, 1)) for _ in range(24)]
    parameters = [p for neuron in [*hidden, last] for p in neuron.parameters()]
    losses = []
    for _ in range(40):
        loss = Scalar(0.0)
        for x, y in points:
            guess = last([neuron([Scalar(x), Scalar(y)]) for neuron in hidden])
            off = guess + Scalar(-1.0 if x * y < 0 else 1.0)
            loss = loss + off * off
        for parameter in parameters:
            parameter.gradient = 0.0
        loss.backward()
        for parameter in parameters:
            parameter.value -= 0.01 * parameter.gradient
        losses.append(loss.value)
    assert losses[-1] < losses[0]


# ------------------------------------------------------------------ asyncio and threads


async def produce(queue: asyncio.Queue[int], count: int) -> None:
    for i in range(count):
        await queue.put(i)
        if i % 8 == 0:
            await asyncio.sleep(0)
    await queue.put(-1)


async def received(queue: asyncio.Queue[int]) -> AsyncIterator[int]:
    while (value := await queue.get()) >= 0:
        yield value


async def consume(queue: asyncio.Queue[int]) -> int:
    total = 0
    async for value in received(queue):
        total += await squared(value)
    return total


async def squared(value: int) -> int:
    return value * value


async def exchange() -> int:
    queues: list[asyncio.Queue[int]] = [asyncio.Queue(4) for _ in range(5)]
    results = await asyncio.gather(
        *(produce(queue, 12_000) for queue in queues), *(consume(queue) for queue in queues)
    )
    return sum(result for result in results if result)


def coroutines() -> None:
    assert asyncio.run(exchange()) == 5 * sum(i * i for i in range(12_000))


def threads() -> None:
    results: list[int] = []
    workers = [threading.Thread(target=lambda: results.append(fibonacci(27))) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [196418] * 6


# ------------------------------------------------------------------ code that calls little


def loops() -> None:
    total = 0
    for i in range(2_400_000):
        if i & 3:
            total += i * 3 & 255
        else:
            total -= i & 15
    assert total > 0


def example(name: str) -> Any:
    """A module of examples/, imported without running its `main`."""
    folder = str(Path(__file__).resolve().parent.parent / "examples")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def numpy_training() -> Run:
    """The training loop of examples/mnist.py: real digits, three layers, Adam."""
    import numpy

    mnist, digits = example("mnist"), example("digits")
    data = digits.load()

    def run() -> None:
        network = mnist.NumpyNetwork(128, 0)
        chance = numpy.random.default_rng(0)
        losses = [mnist.train_epoch(network, data, 32, chance) for _ in range(15)]
        assert losses[-1] < losses[0]

    return run


def torch_training() -> Run:
    """The training loop of examples/torch_cnn.py, on the CPU."""
    import numpy
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    cnn, digits = example("torch_cnn"), example("digits")
    data = digits.load()

    def run() -> None:
        torch.manual_seed(0)
        trainer = cnn.Trainer(16, False)
        trainer.device = torch.device("cpu")
        trainer.model.to("cpu")
        chance = numpy.random.default_rng(0)
        losses = [
            trainer.train_step(images, labels)
            for _ in range(3)
            for images, labels in digits.batches(data.train_images, data.train_labels, 64, chance)
        ]
        assert losses[-1] < losses[0]

    return run


def simple(run: Run) -> Callable[[], Run]:
    return lambda: run


ALL = (
    Workload("recursion", "fibonacci", simple(recursion)),
    Workload("deep recursion", "ackermann, 500 routines deep", simple(deep_recursion)),
    Workload("objects", "simulation with small methods", simple(objects)),
    Workload("operators", "special methods, called from C", simple(operators)),
    Workload("generators", "pipelines and `yield from`", simple(generators)),
    Workload("builtins", "C functions only", simple(builtins)),
    Workload("exceptions", "raised through several routines", simple(exceptions)),
    Workload("closures", "decorators, lambdas, partial", simple(closures)),
    Workload("queens", "backtracking, generator expressions", simple(queens)),
    Workload("parsing", "JSON by recursive descent", simple(parsing)),
    Workload("autograd", "training a network of scalars", simple(autograd)),
    Workload("asyncio", "queues between coroutines", simple(coroutines)),
    Workload("threads", "six threads", simple(threads), call_dense=False),
    Workload("loops", "no calls at all", simple(loops), call_dense=False),
    Workload("NumPy training", "digits", numpy_training, False, "numpy"),
    Workload("PyTorch training", "digits, on the CPU", torch_training, False, "torch"),
)


def available() -> list[Workload]:
    """The workloads whose packages are installed."""
    return [w for w in ALL if not w.needs or importlib.util.find_spec(w.needs) is not None]


def by_name(name: str) -> Workload:
    return next(workload for workload in ALL if workload.name == name)
