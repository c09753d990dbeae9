"""Small programs, each with one kind of call, and the number of calls of each routine.

`calls` was worked out by hand: qualified name -> number of body starts, summed over call paths and
threads. Counts that depend on the version of Python say from which version they hold.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

INLINED = sys.version_info >= (3, 12)
"""From 3.12 on, list, dict and set comprehensions are part of the surrounding routine."""

LATE_ANNOTATIONS = sys.version_info >= (3, 14)
"""From 3.14 on, annotations are a separate routine, called when they are read."""


class Program(NamedTuple):
    name: str
    source: str
    calls: dict[str, int]


def _comprehension(name: str, calls: int) -> dict[str, int]:
    return {} if INLINED else {name: calls}


PROGRAMS = [
    Program(
        "recursion",
        """
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(10)
""",
        {"fib": 177},
    ),
    Program(
        "mutual_recursion",
        """
def even(n):
    return True if n == 0 else odd(n - 1)
def odd(n):
    return False if n == 0 else even(n - 1)
even(10)
odd(4)
""",
        {"even": 6 + 2, "odd": 5 + 3},
    ),
    Program(
        "deep_recursion",
        """
def down(n):
    if n:
        down(n - 1)
for _ in range(3):
    down(400)
""",
        {"down": 3 * 401},
    ),
    Program(
        "generator_to_its_end",
        """
def numbers():
    yield 1
    yield 2
    yield 3
def total():
    return sum(numbers())
total()
total()
""",
        {"total": 2, "numbers": 2},
    ),
    Program(
        "generators_never_started",
        """
def numbers():
    yield 1
numbers()
kept = numbers()
kept.close()
thrown = numbers()
try:
    thrown.throw(ValueError)
except ValueError:
    pass
del kept, thrown
""",
        {},
    ),
    Program(
        "generators_given_up",
        """
def closed():
    try:
        yield 1
        yield 2
    finally:
        cleanup()
def cleanup(): pass
def dropped():
    yield 1
    yield 2
def thrown():
    try:
        yield 1
    except KeyError:
        cleanup()
        yield 2
def stopped():
    yield 1
    return 5
def use():
    g = closed(); next(g); g.close()
    g = dropped(); next(g); del g
    g = thrown(); next(g); g.throw(KeyError); g.close()
    g = stopped(); list(g)
    after()
def after(): pass
use()
""",
        {
            "use": 1,
            "closed": 1,
            "dropped": 1,
            "thrown": 1,
            "stopped": 1,
            "cleanup": 2,
            "after": 1,
        },
    ),
    Program(
        "generator_resumed_elsewhere",
        """
def numbers():
    while True:
        yield step()
def step(): return 1
def first(g): return next(g)
def second(g): return next(g)
g = numbers()
first(g)
second(g)
second(g)
""",
        {"numbers": 1, "first": 1, "second": 2, "step": 3},
    ),
    Program(
        "yield_from",
        """
def leaf(n):
    yield n
    return n
def branch():
    a = yield from leaf(1)
    b = yield from leaf(2)
    return a + b
def tree():
    yield from branch()
    yield from [1, 2]
list(tree())
half = tree()
next(half)
half.close()
""",
        {"tree": 2, "branch": 2, "leaf": 3},
    ),
    Program(
        "generator_that_raises",
        """
def broken():
    yield 1
    raise ValueError
def use():
    try:
        for _ in broken():
            pass
    except ValueError:
        handled()
def handled(): pass
use()
""",
        {"use": 1, "broken": 1, "handled": 1},
    ),
    Program(
        "coroutines",
        """
import asyncio
async def leaf(n):
    await asyncio.sleep(0)
    return n
async def branch():
    return await leaf(1) + await leaf(2)
async def main():
    return sum(await asyncio.gather(branch(), branch(), leaf(3)))
asyncio.run(main())
""",
        {"main": 1, "branch": 2, "leaf": 5},
    ),
    Program(
        "async_generators",
        """
import asyncio
async def ticks(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i
async def total():
    return [i async for i in ticks(3)]
async def early():
    async for i in ticks(3):
        break
class Manager:
    async def __aenter__(self): return self
    async def __aexit__(self, *exception): return False
async def main():
    await total()
    async with Manager():
        await early()
asyncio.run(main())
""",
        {
            "main": 1,
            "total": 1,
            "early": 1,
            "ticks": 2,
            "Manager": 1,
            "Manager.__aenter__": 1,
            "Manager.__aexit__": 1,
            **_comprehension("total.<locals>.<listcomp>", 1),
        },
    ),
    Program(
        "coroutine_by_hand",
        """
class Step:
    def __await__(self):
        yield 1
        return 2
async def work():
    return await Step()
def drive():
    c = work()
    c.send(None)
    try:
        c.send(None)
    except StopIteration:
        pass
    never = work()
    never.close()
drive()
""",
        {"Step": 1, "drive": 1, "work": 1, "Step.__await__": 1},
    ),
    Program(
        "exceptions_through_levels",
        """
def one(): two()
def two(): three()
def three(): raise KeyError
def attempt():
    try:
        one()
    except KeyError:
        handle()
def handle(): pass
for _ in range(4):
    attempt()
""",
        {"attempt": 4, "one": 4, "two": 4, "three": 4, "handle": 4},
    ),
    Program(
        "finally_and_else",
        """
def risky(fail):
    try:
        if fail:
            raise ValueError
        return 1
    except ValueError:
        on_error()
    else:
        never()
    finally:
        always()
def on_error(): pass
def always(): pass
def never(): pass
risky(False); risky(True); risky(True)
""",
        {"risky": 3, "on_error": 2, "always": 3},
    ),
    Program(
        "exception_groups",
        """
def fail(): raise ExceptionGroup("x", [ValueError(), KeyError()])
def a(): pass
def b(): pass
try:
    fail()
except* ValueError:
    a()
except* KeyError:
    b()
""",
        {"fail": 1, "a": 1, "b": 1},
    ),
    Program(
        "threads",
        """
import threading
def work(n):
    for _ in range(n):
        leaf()
def leaf(): pass
threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
for t in threads: t.start()
for t in threads: t.join()
class Own(threading.Thread):
    def run(self): leaf()
own = Own(); own.start(); own.join()
""",
        {"work": 3, "leaf": 7, "Own": 1, "Own.run": 1, **_comprehension("<listcomp>", 1)},
    ),
    Program(
        "thread_pool",
        """
from concurrent.futures import ThreadPoolExecutor
def work(n): return leaf(n)
def leaf(n): return n
with ThreadPoolExecutor(3) as pool:
    assert sum(pool.map(work, range(10))) == 45
""",
        {"work": 10, "leaf": 10},
    ),
    Program(
        "thread_that_raises",
        """
import threading
threading.excepthook = lambda arguments: seen()
def seen(): pass
def work(): raise ValueError
t = threading.Thread(target=work); t.start(); t.join()
""",
        {"work": 1, "<lambda>": 1, "seen": 1},
    ),
    Program(
        "class_bodies",
        """
def make():
    class Local:
        def method(self): return 1
    return Local
class Outer:
    class Inner:
        value = (lambda: 3)()
    def method(self): return self.Inner.value
make()().method()
make()
Outer().method()
""",
        {
            "make": 2,
            "make.<locals>.Local": 2,
            "make.<locals>.Local.method": 1,
            "Outer": 1,
            "Outer.Inner": 1,
            "Outer.Inner.<lambda>": 1,
            "Outer.method": 1,
        },
    ),
    Program(
        "comprehensions",
        """
def f(n): return n
def use():
    a = [f(n) for n in range(3)]
    b = {f(n) for n in range(2)}
    c = {n: f(n) for n in range(4)}
    d = sum(f(n) for n in range(5))
    e = any(f(n) == 1 for n in range(5))
use()
""",
        {
            "use": 1,
            "f": 3 + 2 + 4 + 5 + 2,
            "use.<locals>.<genexpr>": 2,
            **_comprehension("use.<locals>.<listcomp>", 1),
            **_comprehension("use.<locals>.<setcomp>", 1),
            **_comprehension("use.<locals>.<dictcomp>", 1),
        },
    ),
    Program(
        "lambdas",
        """
twice = lambda f: lambda x: f(f(x))
add = lambda x: x + 1
twice(twice(add))(0)
""",
        # The inner lambda of twice(add) runs twice, and that of twice(twice(add)) once.
        {"<lambda>": 2 + 4, "<lambda>.<locals>.<lambda>": 3},
    ),
    Program(
        "decorators",
        """
import functools
def traced(f):
    @functools.wraps(f)
    def wrapper(*a): return f(*a)
    return wrapper
def repeat(n):
    def decorate(f):
        def again(*a):
            for _ in range(n): f(*a)
        return again
    return decorate
@traced
def one(): pass
@repeat(3)
@traced
def two(): pass
one(); two()
@functools.lru_cache
def cached(n): return n
cached(1); cached(1); cached(2)
""",
        {
            "traced": 2,
            "traced.<locals>.wrapper": 1 + 3,
            "repeat": 1,
            "repeat.<locals>.decorate": 1,
            "repeat.<locals>.decorate.<locals>.again": 1,
            "one": 1,
            "two": 3,
            "cached": 2,
        },
    ),
    Program(
        "context_managers",
        """
import contextlib
class Manager:
    def __enter__(self): return self
    def __exit__(self, *exception): return True
@contextlib.contextmanager
def managed():
    enter()
    try:
        yield 1
    finally:
        leave()
def enter(): pass
def leave(): pass
with Manager():
    raise ValueError
for _ in range(2):
    with managed(): pass
try:
    with managed(): raise KeyError
except KeyError:
    pass
""",
        {
            "Manager": 1,
            "Manager.__enter__": 1,
            "Manager.__exit__": 1,
            "managed": 3,
            "enter": 3,
            "leave": 3,
        },
    ),
    Program(
        "closures",
        """
def counter():
    n = 0
    def count():
        nonlocal n
        n += 1
        return n
    return count
a, b = counter(), counter()
a(); a(); b()
def generator_closure(v):
    def g():
        nonlocal v
        yield v
    return g
list(generator_closure(1)())
""",
        {
            "counter": 2,
            "counter.<locals>.count": 3,
            "generator_closure": 1,
            "generator_closure.<locals>.g": 1,
        },
    ),
    Program(
        "evaluated_code",
        """
def f(): return 1
def use():
    eval("f() + f()", {"f": f})
    exec("for _ in range(3): f()", {"f": f})
    code = compile("def made():\\n    return f()\\nmade()", __file__, "exec")
    exec(code, {"f": f})
use()
""",
        {"use": 1, "f": 2 + 3 + 1, "made": 1, "<module>": 2},
    ),
    Program(
        "callbacks_from_c",
        """
import functools, re
def key(x): return -x
def double(x): return 2 * x
def odd(x): return x % 2
def add(a, b): return a + b
def replace(match): return "-"
def use():
    sorted([3, 1, 2], key=key)
    list(map(double, range(4)))
    list(filter(odd, range(5)))
    functools.reduce(add, range(6))
    re.sub("a", replace, "banana")
    max([1, 2, 3], key=lambda x: x)
    functools.partial(double, 1)()
use()
""",
        {
            "use": 1,
            "key": 3,
            "double": 4 + 1,
            "odd": 5,
            "add": 5,
            "replace": 3,
            "use.<locals>.<lambda>": 3,
        },
    ),
    Program(
        "special_methods",
        """
class Vector:
    def __init__(self, x): self.x = x
    def __add__(self, other): return Vector(self.x + other.x)
    def __eq__(self, other): return self.x == other.x
    def __hash__(self): return hash(self.x)
    def __len__(self): return 3
    def __getitem__(self, i):
        if i > 2: raise IndexError
        return i
    def __repr__(self): return "V"
    def __bool__(self): return True
    def __call__(self): return 1
a, b = Vector(1), Vector(2)
a + b
a == b
{a: 1, b: 2}
len(a); list(a); repr(a); bool(a); a()
""",
        {
            "Vector": 1,
            "Vector.__init__": 3,
            "Vector.__add__": 1,
            "Vector.__eq__": 1,
            "Vector.__hash__": 2,
            "Vector.__len__": 2,
            "Vector.__getitem__": 4,
            "Vector.__repr__": 1,
            "Vector.__bool__": 1,
            "Vector.__call__": 1,
        },
    ),
    Program(
        "finalizers",
        """
import gc, weakref
class Gone:
    def __del__(self): gone()
def gone(): pass
def drop():
    thing = Gone()
drop()
cycle = Gone(); cycle.self = cycle; del cycle
gc.collect()
thing = Gone()
weakref.finalize(thing, gone)
del thing
def noted(reference): gone()
class Plain: pass
plain = Plain(); reference = weakref.ref(plain, noted); del plain
""",
        {"Gone": 1, "Plain": 1, "drop": 1, "Gone.__del__": 3, "gone": 3 + 1 + 1, "noted": 1},
    ),
    Program(
        "descriptors",
        """
class Positive:
    def __set_name__(self, owner, name): self.name = name
    def __get__(self, thing, owner): return 1
    def __set__(self, thing, value): check(value)
def check(value): pass
class Thing:
    size = Positive()
    @property
    def area(self): return self.size * 2
    @staticmethod
    def made(): return Thing()
    @classmethod
    def other(cls): return cls()
    def __getattr__(self, name): return name
t = Thing(); t.size = 3; t.area; t.missing
Thing.made(); t.other()
""",
        {
            "Positive": 1,
            "Positive.__set_name__": 1,
            "Positive.__get__": 1,
            "Positive.__set__": 1,
            "check": 1,
            "Thing": 1,
            "Thing.area": 1,
            "Thing.made": 1,
            "Thing.other": 1,
            "Thing.__getattr__": 1,
        },
    ),
    Program(
        "metaclasses",
        """
class Meta(type):
    def __new__(cls, *a): return super().__new__(cls, *a)
    def __init__(cls, *a): super().__init__(*a)
    def __call__(cls, *a): return super().__call__(*a)
    @classmethod
    def __prepare__(cls, *a): return {}
class Base(metaclass=Meta):
    def __init_subclass__(cls): registered()
def registered(): pass
class Child(Base):
    def __init__(self): pass
Child(); Child()
""",
        {
            "Meta": 1,
            "Meta.__prepare__": 2,
            "Base": 1,
            "Child": 1,
            "Meta.__new__": 2,
            "Meta.__init__": 2,
            "Base.__init_subclass__": 1,
            "registered": 1,
            "Meta.__call__": 2,
            "Child.__init__": 2,
        },
    ),
    Program(
        "hostile_attributes",
        """
touched = []
class Hostile:
    def __getattribute__(self, name):
        touched.append(name)
        return object.__getattribute__(self, name)
class HostileMeta(type):
    def __getattribute__(cls, name):
        touched.append(name)
        return super().__getattribute__(name)
class Both(list, metaclass=HostileMeta): pass
h = Hostile()
del touched[:]
def use(): return len([h]), isinstance(3, int)
use()
b = Both()
list.append(b, 1)
list.sort(b)
del touched[:]
def again(): return use()
again()
assert touched == [], touched
""",
        {"Hostile": 1, "HostileMeta": 1, "Both": 1, "use": 2, "again": 1},
    ),
    Program(
        "signal_handlers",
        """
import os, signal
def handler(number, frame): handled()
def handled(): pass
def use():
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGUSR1)
signal.signal(signal.SIGUSR1, handler)
use()
signal.signal(signal.SIGUSR1, signal.SIG_DFL)
""",
        {"use": 1, "handler": 3, "handled": 3},
    ),
    Program(
        "same_code_many_objects",
        """
def make():
    def inner(): return 1
    return inner
for _ in range(5):
    make()()
source = "def f(): return 1\\nf()"
for _ in range(3):
    exec(compile(source, __file__, "exec"))
""",
        {"make": 5, "make.<locals>.inner": 5, "f": 3, "<module>": 4},
    ),
    Program(
        "pattern_matching_and_walrus",
        """
class Point:
    __match_args__ = ("x",)
    def __init__(self, x): self.x = x
def kind(thing):
    match thing:
        case Point(1): return one()
        case Point(x) if (y := guard(x)): return y
        case _: return None
def one(): return 1
def guard(x): return x > 2
kind(Point(1)); kind(Point(2)); kind(Point(3)); kind(None)
""",
        {"Point": 1, "Point.__init__": 3, "kind": 4, "one": 1, "guard": 2},
    ),
    Program(
        "iterators_and_star_arguments",
        """
class Count:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        if not self.n: raise StopIteration
        self.n -= 1
        return self.n
def spread(*a, **k): return len(a)
spread(*Count(3), **{"a": 1})
for _ in Count(2): pass
first, *rest = Count(4)
""",
        {
            "Count": 1,
            "Count.__init__": 3,
            "Count.__iter__": 1 + 1 + 2,
            "Count.__next__": 4 + 3 + 5,
            "spread": 1,
        },
    ),
    Program(
        "import_hooks_and_dataclasses",
        """
from dataclasses import dataclass, field
from enum import Enum
@dataclass(order=True)
class Item:
    size: int
    tags: list = field(default_factory=lambda: [])
    def __post_init__(self): checked()
def checked(): pass
class Colour(Enum):
    RED = 1
    def shout(self): return self.name
assert Item(1) < Item(2)
Colour.RED.shout()
""",
        {
            "Item": 1,
            "Item.__post_init__": 2,
            "Item.<lambda>": 2,
            "checked": 2,
            "Colour": 1,
            "Colour.shout": 1,
            **({"Item.__annotate__": 1} if LATE_ANNOTATIONS else {}),
        },
    ),
    Program(
        "profile_hooks_left_alone",
        """
import contextlib, io
def leaf(): pass
def use():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print("x")
    leaf()
use()
""",
        {"use": 1, "leaf": 1},
    ),
]
