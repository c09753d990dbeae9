"""What came with Python 3.14 and 3.15: the language, the library, monitoring, debugging."""

from ..cases import WORK, Case

CASES = [
    Case(
        "annotations_are_evaluated_when_asked_for",
        """
        import annotationlib
        def kind(): return int
        def work(n: kind()) -> kind(): return n
        class Thing:
            size: kind()
        work(1)
        print(annotationlib.get_annotations(work), annotationlib.get_annotations(Thing))
        """,
        says="{'n': <class 'int'>, 'return': <class 'int'>} {'size': <class 'int'>}",
        keeps={"kind": 3, "work": 1},
        since=(3, 14),
    ),
    Case(
        "template_strings",
        """
        def work(x): return x * 2
        template = t"{work(1)} and {work(2)!r:>5}"
        print([(i.value, i.expression, i.conversion, i.format_spec) for i in template.interpolations])
        """,
        says="[(2, 'work(1)', None, ''), (4, 'work(2)', 'r', '>5')]",
        keeps={"work": 2},
        since=(3, 14),
    ),
    Case(
        "exceptions_without_parentheses",
        """
        def work(n):
            try:
                raise [KeyError, ValueError, TypeError][n]
            except KeyError, ValueError:
                return "caught"
        print(work(0), work(1))
        try: work(2)
        except TypeError: print("passed on")
        """,
        says="caught caught\npassed on",
        keeps={"work": 3},
        since=(3, 14),
    ),
    Case(
        "interpreters",
        WORK
        + "from concurrent import interpreters\n"
        "one = interpreters.create()\n"
        "one.exec('def inner(): return 1\\ninner()\\nprint(\"inside\", flush=True)')\n"
        "def double(n): return 2 * n\n"
        "print(one.call(double, 4))\n"
        "queue = interpreters.create_queue()\n"
        "queue.put(work()); print(queue.get())\n"
        "one.close(); work()\n",
        says="inside\n8\n45",
        keeps={"work": 3},
        since=(3, 14),
    ),
    Case(
        "interpreter_pool",
        """
        from concurrent.futures import InterpreterPoolExecutor
        def work(n): return n * n
        if __name__ == "__main__":
            with InterpreterPoolExecutor(2) as pool:
                print(list(pool.map(work, range(4))))
            work(1)
        """,
        says="[0, 1, 4, 9]",
        keeps="work",
        since=(3, 14),
    ),
    Case(
        "pool_by_the_default_start_method",
        """
        import multiprocessing
        def work(n): return n * n
        if __name__ == "__main__":
            with multiprocessing.Pool(2) as pool:
                print(multiprocessing.get_start_method(), pool.map(work, range(4)))
                pool.close(); pool.join()
            work(1)
        """,
        says="forkserver [0, 1, 4, 9]",
        keeps={"work": 5},
        state=None,
        since=(3, 14),
    ),
    Case(
        "code_run_from_outside",
        """
        import os, subprocess, sys, time
        def work(): return 1
        def injected(): global seen; seen = True
        seen = False
        with open("inject.py", "w") as file:
            file.write("import __main__; __main__.injected()")
        subprocess.run([sys.executable, "-c",
            f"import sys; sys.remote_exec({os.getpid()}, 'inject.py')"], check=True)
        while not seen: time.sleep(0.01)
        work()
        """,
        keeps={"injected": 1, "work": 1},
        since=(3, 14),
    ),
    Case(
        "remote_debugging_switched_off",
        WORK + "import sys\nprint(sys.is_remote_debug_enabled())\n",
        options=("-X", "disable-remote-debug"),
        says="False",
        since=(3, 14),
    ),
    Case(
        "call_graph_of_tasks",
        """
        import asyncio
        async def work(): return asyncio.format_call_graph().count("async")
        async def main():
            async with asyncio.TaskGroup() as group: task = group.create_task(work(), name="T")
            print(task.result())
        asyncio.run(main())
        """,
        says="",
        keeps={"work": 1, "main": 1},
        since=(3, 14),
    ),
    Case(
        "monitoring_of_branches_by_side",
        """
        import sys
        m = sys.monitoring; seen = set()
        m.use_tool_id(m.COVERAGE_ID, "own")
        def left(code, at, to):
            if code is work.__code__: seen.add("left"); return m.DISABLE
        def right(code, at, to):
            if code is work.__code__: seen.add("right"); return m.DISABLE
        m.register_callback(m.COVERAGE_ID, m.events.BRANCH_LEFT, left)
        m.register_callback(m.COVERAGE_ID, m.events.BRANCH_RIGHT, right)
        def work(n):
            if n: return 1
            return 2
        m.set_local_events(m.COVERAGE_ID, work.__code__, m.events.BRANCH_LEFT | m.events.BRANCH_RIGHT)
        for n in range(10): work(n % 2)
        print(sorted(seen), len(list(work.__code__.co_branches())))
        """,
        says="['left', 'right'] 1",
        keeps={"work": 10},
        since=(3, 14),
    ),
    Case(
        "monitoring_of_unwinding_of_one_routine",
        """
        import sys
        m = sys.monitoring; seen = []
        m.use_tool_id(0, "own")
        def inner(): raise ValueError
        def work(): inner()
        def unwound(code, at, error):
            seen.append(code.co_name)
            if len(seen) > 2: return m.DISABLE
        m.register_callback(0, m.events.PY_UNWIND, unwound)
        m.set_local_events(0, work.__code__, m.events.PY_UNWIND)
        for n in range(10):
            try: work()
            except ValueError: pass
        def after(): return 1
        after()
        print(seen)
        """,
        says="['work', 'work', 'work']",
        keeps={"work": 10, "inner": 10, "after": 1},
        since=(3, 15),
    ),
    Case(
        "lazy_imports",
        """
        import sys
        lazy import mine
        lazy from mine import helper
        def work(): return mine.helper()
        print("mine" in sys.modules, sorted(sys.lazy_modules))
        print(work(), helper(), "mine" in sys.modules)
        lazy import missing_module
        try: missing_module.x
        except ImportError as error: print(error)
        """,
        files={"mine.py": "def helper(): return 1\nhelper()\n"},
        says="\n1 1 True\nNo module named 'missing_module'",
        keeps={"work": 1, "helper": 3},
        since=(3, 15),
    ),
    Case(
        "all_imports_lazy",
        WORK + "import sys, json\nprint('json' in sys.modules, sys.get_lazy_imports())\nprint(json.dumps([1]))\n",
        options=("-X", "lazy_imports=all"),
        says="False all\n[1]",
        since=(3, 15),
    ),
    Case(
        "all_imports_lazy_by_the_environment",
        WORK + "import sys, json\nprint('json' in sys.modules, sys.get_lazy_imports())\nprint(json.dumps([1]))\n",
        environment={"PYTHON_LAZY_IMPORTS": "all"},
        says="False all\n[1]",
        since=(3, 15),
    ),
    Case(
        "filter_of_lazy_imports",
        """
        import sys
        asked = []
        def choose(importing, name, names=None):
            asked.append(name); return name != "mine"
        sys.set_lazy_imports_filter(choose)
        lazy import mine
        lazy import json
        print(asked, "mine" in sys.modules, "json" in sys.modules)
        """,
        files={"mine.py": ""},
        says="['mine', 'json'] True False",
        keeps={"choose": 2},
        since=(3, 15),
    ),
    Case(
        "frozendict_and_sentinel_and_unpacking",
        """
        def work(x): return [x, x + 1]
        NOTHING = sentinel("NOTHING")
        print([*work(n) for n in range(3)], {**d for d in ({"a": 1}, {"b": 2})}, hash(frozendict(a=1)) != 0, NOTHING)
        """,
        says="[0, 1, 1, 2, 2, 3] {'a': 1, 'b': 2} True NOTHING",
        keeps={"work": 3},
        since=(3, 15),
    ),
    Case(
        "the_tracing_profiler",
        """
        from profiling.tracing import Profile
        import pstats
        def work(): return sum(range(10))
        with Profile() as profile:
            for _ in range(5): work()
        print({key[2]: value[0] for key, value in pstats.Stats(profile).stats.items() if key[2] == "work"})
        work()
        """,
        says="{'work': 5}",
        keeps={"work": 6},
        since=(3, 15),
    ),
    Case(
        "the_sampling_profiler_on_itself",
        """
        import os, subprocess, sys
        def work():
            sampler = subprocess.run(
                [sys.executable, "-m", "profiling.sampling", "dump", str(os.getpid())],
                capture_output=True, text=True)
            return sampler.returncode == 0 and "work" in sampler.stdout, sampler.stderr
        print(*work())
        """,
        says="True",
        keeps={"work": 1},
        since=(3, 15),
    ),
    Case(
        "a_frame_whose_locals_are_changed",
        """
        import sys
        def work():
            value = 1
            change(sys._getframe())
            return value
        def change(frame): frame.f_locals["value"] = 2
        print(work())
        """,
        says="2",
        keeps={"work": 1, "change": 1},
        since=(3, 13),
    ),
    Case(
        "a_generator_from_its_frame",
        """
        def numbers():
            yield 1
            yield 2
        generator = numbers()
        def work(): return next(generator), generator.gi_frame.f_generator is generator
        print(work(), list(generator))
        """,
        says="(1, True) [2]",
        keeps={"work": 1},
        since=(3, 14),
    ),
]
