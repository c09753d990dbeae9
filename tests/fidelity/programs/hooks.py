"""The program's own profilers, tracers, monitoring tools, allocators' tracers."""

from ..cases import WORK, Case

CASES = [
    Case(
        "its_own_room_in_code_objects",
        """
        import ctypes, sys
        names = "_PyEval_RequestCodeExtraIndex", "_PyCode_SetExtra"
        if sys.version_info >= (3, 12):
            names = "PyUnstable_Eval_RequestCodeExtraIndex", "PyUnstable_Code_SetExtra"
        ask, note = (getattr(ctypes.pythonapi, name) for name in names)
        note.argtypes = ctypes.py_object, ctypes.c_ssize_t, ctypes.c_void_p
        freed = []
        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(freed.append)
        index = ask(free)
        def work(): return 1
        work()
        eval("lambda: work()")()  # it never heard of that one
        print(freed)
        one = eval("lambda: work()")
        one()
        note(one.__code__, index, 100)
        del one
        other = eval("lambda: work()")
        note(other.__code__, index, 200)
        other()
        del other
        print(freed)
        """,
        says="[]\n[100, 200]",
        keeps={"work": 4},
    ),
    Case(
        "setprofile",
        """
        import sys
        events = []
        def hook(frame, event, arg):
            events.append((event, frame.f_code.co_name, getattr(arg, "__name__", arg if event == "return" else None)))
        def inner(n): return len("abc") + n
        def work():
            sys.setprofile(hook)
            inner(1); inner(2)
            [x for x in range(2)]
            sys.setprofile(None)
        work()
        def later(): return 1
        later()
        for e in events: print(e)
        """,
        says="('call', 'inner', None)",
        keeps={"work": 1, "later": 1},
    ),
    Case(
        "setprofile_left_on",
        """
        import sys
        count = 0
        def hook(frame, event, arg):
            global count
            if event == "call" and frame.f_code.co_name == "work": count += 1
        sys.setprofile(hook)
        def work(): return 1
        for i in range(100): work()
        print(count, sys.getprofile() is hook)
        """,
        says="100 True",
        keeps=(),
    ),
    Case("setprofile_none", "import sys\nsys.setprofile(None)\n" + WORK + "print(sys.getprofile())\n", says="None", keeps={"work": 1}),
    Case("setprofile_put_back", "import sys\nold = sys.getprofile()\nsys.setprofile(lambda *a: None)\nsys.setprofile(old)\n" + WORK, keeps={"work": 1}),
    Case(
        "setprofile_raises",
        """
        import sys
        def hook(frame, event, arg):
            if frame.f_code.co_name == "bad": raise ValueError("hook")
        def bad(): pass
        def work():
            sys.setprofile(hook)
            try: bad()
            except ValueError as error: print(error, sys.getprofile())
        work()
        def later(): return 1
        later()
        """,
        says="hook None",
        keeps={"work": 1, "later": 1},
    ),
    Case(
        "settrace",
        """
        import sys
        lines = []
        def trace(frame, event, arg):
            lines.append((event, frame.f_code.co_name, frame.f_lineno))
            return trace
        def work(n):
            total = 0
            for i in range(n):
                total += i
            return total
        sys.settrace(trace)
        work(3)
        try: work("x")
        except TypeError: pass
        sys.settrace(None)
        print(lines)
        """,
        says="'line', 'work'",
        keeps={"work": 2},
    ),
    Case(
        "settrace_opcodes",
        """
        import sys
        count = 0
        def trace(frame, event, arg):
            global count
            frame.f_trace_opcodes = True
            count += event == "opcode"
            return trace
        def work(n): return n + 1
        sys.settrace(trace); work(1); sys.settrace(None)
        print(count)
        """,
        keeps={"work": 1},
    ),
    Case(
        "settrace_jumps",
        """
        import sys
        def trace(frame, event, arg):
            if event == "line" and frame.f_lineno == first + 2: frame.f_lineno = first + 3
            return trace
        def work():
            print("one")
            print("skipped")
            print("three")
        first = work.__code__.co_firstlineno
        sys.settrace(trace); work(); sys.settrace(None)
        """,
        says="one\nthree",
    ),
    Case(
        "settrace_and_setprofile_in_threads",
        """
        import sys, threading
        seen = []
        def hook(frame, event, arg):
            if frame.f_code.co_name == "work": seen.append(event)
        def trace(frame, event, arg):
            if frame.f_code.co_name == "work": seen.append("t" + event); return trace
        def work(): return 1
        threading.setprofile(hook); threading.settrace(trace)
        t = threading.Thread(target=work); t.start(); t.join()
        threading.setprofile(None); threading.settrace(None)
        t = threading.Thread(target=work); t.start(); t.join()
        print(seen, threading.getprofile(), threading.gettrace())
        """,
        says="'tcall', 'call'",
    ),
    Case(
        "setprofile_in_all_threads",
        """
        import sys, threading
        seen = []
        def hook(frame, event, arg):
            if frame.f_code.co_name == "inner": seen.append(event)
        go, done = threading.Event(), threading.Event()
        def inner(): pass
        def work(): go.wait(); inner(); done.set()
        t = threading.Thread(target=work); t.start()
        threading.setprofile_all_threads(hook)
        go.set(); t.join()
        threading.setprofile_all_threads(None)
        print(seen, sys.getprofile())
        """,
        since=(3, 12),
        says="['call', 'return'] None",
        keeps=(),
    ),
    Case(
        "c_profile",
        """
        import cProfile, pstats
        def inner(): return len("a")
        def work():
            for i in range(5): inner()
        profile = cProfile.Profile()
        profile.enable(); work(); profile.disable()
        stats = pstats.Stats(profile).stats
        print(sorted((k[2], v[0], v[1]) for k, v in stats.items() if "prog.py" in k[0] or "len" in k[2]))
        profile = cProfile.Profile()
        print(profile.runcall(inner))
        """,
        says="('inner', 5, 5)",
        keeps={"work": 1, "inner": 6},
    ),
    Case(
        "c_profile_as_module",
        kind="module",
        target="cProfile",
        args=("-o", "/dev/null", "prog.py"),
        files={"prog.py": WORK + "print(__name__, __file__)\nimport sys; print(sys.argv, sys.path[0])\n"},
        before="",
        says="__main__",
        keeps="work",
        compares_stderr=True,
    ),
    Case(
        "profile_in_python",
        """
        import profile
        def inner(): return 1
        def work():
            for i in range(5): inner()
        p = profile.Profile()
        p.runcall(work)
        p.create_stats()
        print(sorted((k[2], v[0]) for k, v in p.stats.items() if "prog.py" in k[0]))
        def later(): return 1
        later()
        """,
        says="('inner', 5)",
        keeps="later",
    ),
    Case(
        "trace_module",
        """
        import trace
        def inner(): return 1
        def work():
            for i in range(3): inner()
        t = trace.Trace(count=True, trace=False)
        t.runfunc(work)
        print(sorted(v for k, v in t.results().counts.items() if "prog.py" in k[0]))
        """,
        keeps={"work": 1, "inner": 3},
    ),
    Case(
        "debugger_by_bdb",
        """
        import bdb
        class Debugger(bdb.Bdb):
            def user_line(self, frame):
                if frame.f_code.co_name == "work": print("line", frame.f_lineno)
                self.set_step()
        def work():
            a = 1
            return a
        Debugger().runcall(work)
        """,
        says="line",
    ),
    Case(
        "monitoring_ids",
        WORK
        + """
import sys
free = [n for n in range(6) if sys.monitoring.get_tool(n) is None]
print(len(free) >= 5, {0, 1, 2, 5} <= set(free))
taken = 0
for n in range(6):
    try: sys.monitoring.use_tool_id(n, f"tool {n}"); taken += 1
    except ValueError: pass
print(taken >= 5)
for n in free: sys.monitoring.free_tool_id(n)
def later(): return 1
later()
""",
        since=(3, 12),
        says="True True\nTrue",
        keeps={"later": 1},
    ),
    Case(
        "monitoring_own_tool",
        """
        import sys
        m = sys.monitoring
        seen = []
        m.use_tool_id(m.PROFILER_ID, "mine")
        E = m.events
        m.register_callback(m.PROFILER_ID, E.PY_START, lambda code, at: seen.append(("start", code.co_name)))
        m.register_callback(m.PROFILER_ID, E.PY_RETURN, lambda code, at, value: seen.append(("return", value)))
        m.register_callback(m.PROFILER_ID, E.CALL, lambda code, at, f, arg: seen.append(("call", getattr(f, "__name__", "?"))))
        m.register_callback(m.PROFILER_ID, E.RAISE, lambda code, at, error: seen.append(("raise", str(error))))
        def inner(n): return abs(n)
        def work():
            inner(-1)
            try: inner("x")
            except TypeError: pass
        m.set_events(m.PROFILER_ID, E.PY_START | E.PY_RETURN | E.CALL | E.RAISE)
        work()
        m.set_events(m.PROFILER_ID, 0)
        for s in seen: print(s)
        print(m.get_events(m.PROFILER_ID), m.get_tool(m.PROFILER_ID))
        m.free_tool_id(m.PROFILER_ID)
        """,
        since=(3, 12),
        says="('start', 'inner')",
        keeps={"work": 1, "inner": 2},
    ),
    Case(
        "monitoring_disable_and_restart",
        """
        import sys
        m = sys.monitoring
        count = {"start": 0, "line": 0}
        def start(code, at):
            if code.co_name != "work": return
            count["start"] += 1
            return m.DISABLE
        def line(code, at):
            count["line"] += 1
            return m.DISABLE
        def work():
            for i in range(3):
                pass
        m.use_tool_id(0, "mine")
        m.register_callback(0, m.events.PY_START, start)
        m.register_callback(0, m.events.LINE, line)
        m.set_events(0, m.events.PY_START)
        m.set_local_events(0, work.__code__, m.events.LINE)
        for i in range(5): work()
        print(count); m.restart_events()
        for i in range(5): work()
        print(count, m.get_local_events(0, work.__code__) == m.events.LINE)
        """,
        since=(3, 12),
        says="'start': 2",
        keeps={"work": 10},
    ),
    Case(
        "monitoring_callback_raises",
        """
        import sys
        m = sys.monitoring
        def bad(code, at):
            if code.co_name == "inner": raise ValueError("from tool")
        def inner(): return 1
        def work():
            try: inner()
            except ValueError as error: print(error)
        m.use_tool_id(5, "mine")
        m.register_callback(5, m.events.PY_START, bad)
        m.set_events(5, m.events.PY_START)
        work()
        m.set_events(5, 0)
        def later(): return 1
        later()
        """,
        since=(3, 12),
        says="from tool",
        keeps={"work": 1, "later": 1},
    ),
    Case(
        "monitoring_branches_and_jumps",
        """
        import sys
        m = sys.monitoring
        seen = []
        def work(n):
            total = 0
            for i in range(n):
                if i % 2: total += 1
            return total
        m.use_tool_id(1, "mine")
        for e in ("JUMP", "BRANCH", "STOP_ITERATION", "INSTRUCTION"):
            m.register_callback(1, getattr(m.events, e), lambda *a, e=e: seen.append((e, a[1])))
        m.set_local_events(1, work.__code__, m.events.JUMP | m.events.BRANCH | m.events.INSTRUCTION)
        print(work(4))
        print(len(seen), seen[:5])
        """,
        since=(3, 12),
        keeps={"work": 1},
    ),
    Case(
        "tracemalloc",
        """
        import tracemalloc
        def work():
            return [bytes(1000) for i in range(100)]
        tracemalloc.start(5)
        kept = work()
        snapshot = tracemalloc.take_snapshot()
        print(sorted((s.traceback[0].lineno, s.count >= 100) for s in snapshot.statistics("lineno") if "prog.py" in s.traceback[0].filename and s.size > 50000))
        print([f.lineno for f in tracemalloc.get_object_traceback(kept[0])])
        """,
        says="[(4, True)]",
        keeps={"work": 1},
    ),
    Case(
        "faulthandler_registered",
        WORK + "import faulthandler, os, signal, sys\nfaulthandler.register(signal.SIGUSR1, all_threads=False, chain=False)\ndef show():\n    os.kill(os.getpid(), signal.SIGUSR1)\nshow()\n",
        says="in show",
    ),
    Case(
        "faulthandler_later",
        WORK + "import faulthandler, time\ndef nap():\n    faulthandler.dump_traceback_later(0.2, exit=True); time.sleep(100)\nnap()\n",
        status=1,
        says="Timeout (0:00:00.200000)!",
        state=None,
    ),
    Case(
        "gc_callbacks",
        WORK + "import gc\ngc.collect()\ngc.callbacks.append(lambda phase, info: print(phase))\ngc.collect()\ngc.callbacks.clear()\n",
        says="start\nstop",
    ),
    Case(
        "stack_trampoline",
        """
        import sys, os
        try: sys.activate_stack_trampoline("perf")
        except ValueError as error: print(error)
        def work(): return 1
        for i in range(10): work()
        print(sys.is_stack_trampoline_active())
        sys.deactivate_stack_trampoline()
        try: os.unlink(f"/tmp/perf-{os.getpid()}.map")
        except OSError: pass
        """,
        since=(3, 12),
        keeps="work",
    ),
    Case(
        "call_tracing",
        "import sys\ndef work(n): return n + 1\nprint(sys.call_tracing(work, (1,)))\n",
        says="2",
        keeps={"work": 1},
    ),
    Case(
        "frame_evaluation_by_c_api",
        WORK + "import ctypes\nprint(ctypes.pythonapi.Py_IsInitialized(), ctypes.pythonapi.PyEval_SetProfile is not None)\nctypes.pythonapi.PyEval_SetProfile(None, None)\ndef later(): return 1\nlater()\n",
        keeps={"work": 1, "later": 1},
    ),
]
