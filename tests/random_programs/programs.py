"""Random programs that call in every way that Python has, the same for the same seed.

A program is a set of routines that call each other. Each takes the number of calls that it may
still cause and hands parts of it on, so every program ends, after some hundred calls. Nothing in
it depends on time, addresses or the order of threads.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable, Iterator

PRELUDE = '''\
import asyncio, contextlib, functools, itertools, signal, threading

class Pause:
    def __await__(self):
        yield
        return 1

def drive(coroutine):
    """Run a coroutine to its end by hand."""
    steps = 0
    while True:
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value + 0 * steps
        steps += 1

def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]

def caught(function, n):
    try:
        return function(n)
    except (ValueError, KeyError) as error:
        return len(str(error))

def decorated(function):
    @functools.wraps(function)
    def wrapper(n):
        return function(n) + 1
    return wrapper

def handled(function):
    """Call a function from a signal handler, where Python runs handlers."""
    if threading.current_thread() is not threading.main_thread():
        return 0
    results = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: results.append(function()))
    signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)
    return len(results)

class Finalized:
    def __init__(self, function):
        self.function = function
    def __del__(self):
        self.function()
'''

LATE = ("handled", "Finalized")
"""Parts of the prelude whose calls the plain engine counts as lower bounds only."""

# How a routine makes a call: {call} is an expression, {n} a name that no other call has.
_STATEMENTS = [
    "t += {call}",
    "for _ in range(2): t += {call}",
    "try:\n    t += {call}\nfinally:\n    t += 1",
    "try:\n    t += {call}\n    raise KeyError(t)\n"
    "except KeyError:\n    t += {call}\nelse:\n    t += 2",
    "t += sum({call} for _ in range(2))",
    "t += sum([{call} for _ in range(2)])",
    "t += len({{{call}: 1 for _ in range(2)}})",
    "t += (lambda: {call})()",
    "t += sorted([3, 1, 2], key=lambda x: x + 0 * {call})[0]",
    "t += functools.reduce(lambda a, b: a + b + 0 * {call}, [1, 2, 3])",
    "t += sum(map(lambda x: x + {call}, (1, 2)))",
    "t += len(list(filter(lambda x: {call} and x, (0, 1))))",
    "def inner_{n}():\n    nonlocal t\n    t += 1\n    return {call}\nt += inner_{n}()",
    "class Local_{n}:\n    value = {call}\n    def get(self): return self.value\n"
    "t += Local_{n}().get()",
    "with contextlib.suppress(ValueError):\n    t += {call}\n    raise ValueError",
    "with contextlib.ExitStack() as stack_{n}:\n    stack_{n}.callback(lambda: {call})\n    t += 1",
    "if (x_{n} := {call}) > 2:\n    t += x_{n}",
    "match {call}:\n    case 1: t += 1\n"
    "    case x_{n} if x_{n} + {call}: t += 2\n    case _: t += 3",
    "while t < 2:\n    t += 1 + {call}",
    "t += in_thread(lambda: {call})",
    "t += functools.partial(lambda a, b: a + b + {call}, 1)(2)",
    "t += next(iter(lambda: {call}, None))",
    "assert {call} is not None",
    "t += len(f'{{{call}!r:>4}}')",
    "generator_{n} = (x + {call} for x in (1, 2, 3))\n"
    "t += next(generator_{n})\ngenerator_{n}.close()",
]
_LATE_STATEMENTS = [
    "t += handled(lambda: {call})",
    "Finalized(lambda: {call})",
    "held_{n} = Finalized(lambda: {call})\ndel held_{n}",
]

# Kinds of routine: source with {name}, {body} (which counts up `t`), and how it is called.
_FUNCTION = "def {name}(n):\n    t = 0\n{body}\n    return t"
_KINDS: list[tuple[str, list[str]]] = [
    (_FUNCTION, ["{name}({n})", "{name}(n={n})", "caught({name}, {n})"]),
    ("@decorated\n" + _FUNCTION, ["{name}({n})"]),
    ("@functools.lru_cache(4)\n" + _FUNCTION, ["{name}({n})", "{name}(min(3, {n}))"]),
    (
        "def {name}(n):\n    t = 0\n{body}\n    if t % 2: raise ValueError(t)\n"
        "    raise KeyError(t)",
        ["caught({name}, {n})"],
    ),
    (
        "def {name}(n):\n    t = 0\n    yield 1\n{body}\n    yield t\n    yield 2",
        [
            "sum({name}({n}))",
            "next({name}({n}))",
            "sum(itertools.islice({name}({n}), 2))",
            "max(*{name}({n}), 1)",
            "(lambda g: next(g) + next(g))({name}({n}))",
        ],
    ),
    (
        "def {name}(n):\n    t = 0\n    try:\n        t += yield 1\n    finally:\n"
        "        def last():\n            nonlocal n, t\n{body2}\n        last()\n    yield t",
        ["next({name}({n}))", "(lambda g: next(g) + g.send(1))({name}({n}))"],
    ),
    (
        "def {name}(n):\n    t = 0\n    try:\n        yield 1\n    except KeyError:\n{body1}\n"
        "        yield t",
        ["(lambda g: next(g) + g.throw(KeyError(1)))({name}({n}))"],
    ),
    (
        "def {name}_part(n):\n    t = 0\n    yield 1\n{body}\n    return t\n"
        "def {name}(n):\n    t = yield from {name}_part(n)\n    yield t",
        ["sum({name}({n}))", "next({name}({n}))"],
    ),
    (
        "async def {name}(n):\n    t = 0\n    await Pause()\n{body}\n    return t",
        ["drive({name}({n}))", "in_thread(lambda: asyncio.run({name}_main({n})))"],
    ),
    (
        "async def {name}_items(n):\n    t = 0\n    yield 1\n    await Pause()\n{body}\n"
        "    yield t\n"
        "async def {name}(n):\n    t = 0\n    async for x in {name}_items(n): t += x\n"
        "    return t + sum([x async for x in {name}_items(n // 4)])",
        ["drive({name}({n}))"],
    ),
    (
        "@contextlib.contextmanager\ndef {name}(n):\n    t = 0\n{body}\n    try:\n        yield t\n"
        "    except ValueError:\n        pass",
        ["len([0 for _ in (1,) if {name}({n}).__enter__() is not None])"],
    ),
    (
        "class {name}:\n    def __init__(self, n):\n        self.n = n\n    def run(self, n):\n"
        "        t = 0\n{body1}\n        return t\n"
        "    __call__ = lambda self, n: self.run(n)\n"
        "    def __add__(self, other): return self.run(self.n) + other\n"
        "    def __getitem__(self, n): return self.run(n)\n"
        "    def __len__(self): return 1 + 0 * self.run(self.n)\n"
        "    def __eq__(self, other): return bool(self.run(self.n))\n"
        "    def __getattr__(self, name): return self.run(self.n)\n"
        "    def __iter__(self):\n        yield self.run(self.n)\n"
        "    def __enter__(self): return self.run(self.n)\n"
        "    def __exit__(self, *error): return True\n"
        "    @property\n    def value(self): return self.run(self.n)\n"
        "    @staticmethod\n    def still(n): return {name}(n).run(n)\n"
        "    @classmethod\n    def of(cls, n): return cls(n).run(n)\n",
        [
            "{name}({n}).run({n})",
            "{name}({n})({n})",
            "({name}({n}) + 1)",
            "{name}({n})[{n}]",
            "len({name}({n}))",
            "({name}({n}) == 1)",
            "{name}({n}).missing",
            "sum({name}({n}))",
            "{name}({n}).value",
            "{name}.still({n})",
            "{name}.of({n})",
            "sum(map({name}({n}), (0, {n})))",
        ],
    ),
    (
        "class {name}_base:\n    def __init_subclass__(cls): cls.count = 1\n    def run(self, n):\n"
        "        t = 0\n{body1}\n        return t\n"
        "class {name}_kind(type):\n"
        "    def __call__(cls, *arguments): return super().__call__(*arguments)\n"
        "class {name}({name}_base, metaclass={name}_kind):\n"
        "    def run(self, n): return super().run(n) + self.count\n",
        ["{name}().run({n})", "{name}_base.run({name}(), {n})"],
    ),
]
_MAIN = "\nasync def {name}_main(n):\n    await asyncio.sleep(0)\n    return await {name}(n)"


def program(seed: int, calls: int = 300, late: bool = True) -> str:
    """The source of a random program.

    Args:
        seed: the same seed gives the same program, on every Python.
        calls: about how many it makes at most, not counting those of the prelude.
        late: also from signal handlers and finalizers.
    """
    chosen = random.Random(seed)
    kinds = [chosen.choice(_KINDS) for _ in range(chosen.randint(3, 9))]
    callees = [
        form.replace("{name}", f"r{at}") for at, (_, forms) in enumerate(kinds) for form in forms
    ]
    statements = _STATEMENTS + (_LATE_STATEMENTS if late else [])
    parts = [PRELUDE]
    for at, (source, forms) in enumerate(kinds):
        body = _body(chosen, statements, callees)
        for deeper, mark in enumerate(("{body}", "{body1}", "{body2}"), 1):
            source = source.replace(mark, textwrap.indent(body, "    " * deeper))
        if any("_main(" in form for form in forms):
            source += _MAIN
        parts.append(source.replace("{name}", f"r{at}"))
    starts = [chosen.choice(callees).replace("{n}", str(calls // 3)) for _ in range(3)]
    return "\n\n".join([*parts, f"print([{', '.join(starts)}])\n"])


def _body(chosen: random.Random, statements: list[str], callees: list[str]) -> str:
    """Statements that make calls while `n`, the calls allowed, is above 0."""
    taken = [chosen.choice(statements) for _ in range(chosen.randint(1, 3))]
    # Each call may happen several times: three is the most that a statement above makes.
    share = 3 * sum(statement.count("{call}") for statement in taken)
    lines = ["if n > 0:", f"    n = (n - 1) // {share}"]
    for at, statement in enumerate(taken):
        lines.append(
            textwrap.indent(_filled(statement, at, lambda: chosen.choice(callees)), "    ")
        )
    return "\n".join(lines)


def _filled(statement: str, number: int, callee: Callable[[], str]) -> str:
    """A statement with its calls, which are asked for one by one."""
    while "{call}" in statement:
        statement = statement.replace("{call}", "(" + callee().replace("{n}", "n") + ")", 1)
    return statement.replace("{n}", str(number)).replace("{{", "{").replace("}}", "}")


def each_statement() -> Iterator[str]:
    """A function for each statement and each call that may stand in it."""
    for _, forms in _KINDS:
        for form in forms:
            for at, statement in enumerate(_STATEMENTS + _LATE_STATEMENTS):
                body = _filled(statement, at, lambda form=form: form.replace("{name}", "f"))
                yield "def caller(n):\n    t = 0\n" + textwrap.indent(body, "    ")
