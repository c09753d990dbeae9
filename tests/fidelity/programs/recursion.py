"""How deep the program gets: exactly as deep, and RecursionError as plain."""

from ..cases import Case

_DEPTH = """
import sys, threading
deepest = 0
def work(n):
    global deepest
    deepest = n
    work(n + 1)
"""

CASES = [
    Case(
        "exact_depth",
        _DEPTH + "for i in range(3):\n    try: work(1)\n    except RecursionError as error: print(deepest, error)\n",
        says="maximum recursion depth exceeded",
        shows_depth=True,
    ),
    Case(
        "exact_depth_in_a_thread",
        _DEPTH
        + "def run():\n    try: work(1)\n    except RecursionError: print(deepest)\n"
        + "t = threading.Thread(target=run); t.start(); t.join()\n",
        shows_depth=True,
    ),
    Case(
        "exact_depth_of_methods_and_closures",
        """
        class Thing:
            def __getattr__(self, name):
                self.__dict__["n"] += 1
                return getattr(self, name + "x")
            def __call__(self, f):
                self.__dict__["n"] += 1
                return f(lambda: self(f))
        def work():
            for start in (lambda t: t.a, lambda t: t(lambda f: f())):
                thing = Thing(); thing.__dict__["n"] = 0
                try: start(thing)
                except RecursionError: print(thing.__dict__["n"])
        work()
        """,
        shows_depth=True,
        depth_through_c=True,
    ),
    Case(
        "exact_depth_through_c",
        """
        n = 0
        def work(x):
            global n
            n += 1
            return sorted([1, 2], key=work)
        try: work(0)
        except RecursionError: print(n)
        """,
        shows_depth=True,
        depth_through_c=True,
    ),
    Case(
        "exact_depth_through_init_and_repr",
        """
        n = 0
        class Thing:
            def __init__(self):
                global n; n += 1
                Thing()
            def __repr__(self):
                global n; n += 1
                return repr(self)
        def work(f):
            global n
            n = 0
            try: f()
            except RecursionError: print(n)
        work(Thing)
        work(lambda: repr(object.__new__(Thing)))
        """,
        shows_depth=True,
        depth_through_c=True,
    ),
    Case(
        "exact_depth_of_generators",
        """
        n = 0
        def work():
            global n
            n += 1
            yield from work()
        try: list(work())
        except RecursionError: print(n)
        """,
        shows_depth=True,
    ),
    Case(
        "exact_depth_of_coroutines",
        """
        n = 0
        async def work():
            global n
            n += 1
            await work()
        import asyncio
        try: asyncio.run(work())
        except RecursionError: print(n)
        """,
        shows_depth=True,
    ),
    Case(
        "low_limit",
        _DEPTH + "sys.setrecursionlimit(60)\ntry: work(1)\nexcept RecursionError: print(deepest)\n",
        shows_depth=True,
    ),
    Case(
        "limit_changed_from_within",
        """
        import sys
        def work(n):
            if n == 200: sys.setrecursionlimit(3000)
            return work(n + 1) if n < 2500 else n
        print(work(0))
        try: sys.setrecursionlimit(0)
        except ValueError as error: print(error)
        """,
        says="2500",
    ),
    Case(
        "counts_go_on_after_the_error",
        """
        def deep(n): return deep(n + 1)
        def work(): return 1
        def catch():
            try: deep(0)
            except RecursionError: return 1
        for i in range(5):
            catch(); work()
        print("on")
        """,
        says="on",
        keeps={"work": 5, "catch": 5, "deep": None},
    ),
    Case(
        "deep_9000",
        """
        import sys
        sys.setrecursionlimit(10000)
        def work(n): return work(n - 1) + 1 if n else 0
        print(work(9000))
        """,
        says="9000",
        keeps={"work": 9001},
    ),
    Case(
        "deep_40000",
        """
        import sys
        sys.setrecursionlimit(50000)
        def work(n): return work(n - 1) + 1 if n else 0
        print(work(40000))
        """,
        says="40000",
        keeps={"work": 40001},
        lateness_s=20,
    ),
    Case(
        "deep_40000_left_by_an_error",
        """
        import sys
        sys.setrecursionlimit(50000)
        class Up(Exception): pass
        def work(n):
            if not n: raise Up
            work(n - 1)
        try: work(40000)
        except Up as error: print("up")
        """,
        says="up",
        keeps={"work": 40001},
        lateness_s=20,
    ),
    Case(
        "deep_40000_left_by_exit",
        """
        import sys
        sys.setrecursionlimit(50000)
        def work(n):
            if not n: sys.exit(3)
            work(n - 1)
        work(40000)
        """,
        status=3,
        keeps={"work": 40001},
        lateness_s=20,
    ),
    Case(
        "deep_in_a_big_thread",
        """
        import sys, threading
        sys.setrecursionlimit(60000)
        threading.stack_size(512 * 1024 * 1024)
        def work(n): return work(n - 1) + 1 if n else 0
        def run(): print(work(50000))
        t = threading.Thread(target=run); t.start(); t.join()
        """,
        says="50000",
        keeps={"work": 50001},
        lateness_s=20,
    ),
    Case(
        "deep_in_a_small_thread",
        """
        import sys, threading
        sys.setrecursionlimit(3000)
        threading.stack_size(256 * 1024)
        def work(n): return work(n - 1) + 1 if n else 0
        def run(): print(work(900))
        t = threading.Thread(target=run); t.start(); t.join()
        """,
        says="900",
        keeps={"work": 901},
    ),
    Case(
        "deep_through_c_in_a_big_thread",
        """
        import sys, threading
        sys.setrecursionlimit(20000)
        threading.stack_size(512 * 1024 * 1024)
        def work(n): return max([n - 1], key=work) if n else 0
        def run():
            try: print(work(1000))
            except RecursionError: print("too deep")
        t = threading.Thread(target=run); t.start(); t.join()
        """,
    ),
    Case(
        "deep_data",
        """
        import ast, copy, json, pickle
        def work():
            data = []
            for i in range(100000): data = [data]
            for f in (repr, json.dumps, pickle.dumps, copy.deepcopy, str):
                try: f(data); print("fine")
                except RecursionError: print(f.__name__, "too deep")
            while data: data = data[0]
        work()
        try: compile("-" * 5000 + "1", "x", "eval"); print("compiled")
        except (RecursionError, MemoryError) as error: print(type(error))
        """,
    ),
    Case(
        "long_cause_chain",
        """
        def work(n):
            try:
                if n: work(n - 1)
                raise ValueError(n)
            except ValueError as error:
                raise KeyError(n) from error
        try: work(300)
        except KeyError as error:
            depth = 0
            while error: depth, error = depth + 1, error.__cause__ or error.__context__
            print(depth)
        """,
    ),
    Case(
        "recovery_in_the_handler",
        """
        def work(n):
            try:
                return work(n + 1)
            except RecursionError:
                return n if n % 50 == 0 else work_again(n)
        def work_again(n):
            raise RecursionError(n)
        try: print(work(0))
        except RecursionError as error: print("again", error)
        """,
    ),
]
