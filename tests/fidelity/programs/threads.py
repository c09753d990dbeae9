"""Threads, and the order of everything at the end."""

from ..cases import WORK, Case

_START = "import threading, time, sys, os, atexit\nrun_began = threading.Event()\ndef work():\n    return 1\n"


def _threads(name: str, source: str, **more) -> Case:
    return Case(name, _START + source, **more)


CASES = [
    _threads("two", "ts = [threading.Thread(target=work) for i in range(2)]\nfor t in ts: t.start()\nfor t in ts: t.join()\nprint('done')\n", keeps={"work": 2}),
    _threads("fifty_at_once", "b = threading.Barrier(50)\ndef meet():\n    b.wait(); work()\nts = [threading.Thread(target=meet) for i in range(50)]\nfor t in ts: t.start()\nfor t in ts: t.join()\n", keeps={"work": 50, "meet": 50}),
    _threads("five_hundred_one_by_one", "for i in range(500):\n    t = threading.Thread(target=work); t.start(); t.join()\nprint(threading.active_count())\n", says="1", keeps={"work": 500}),
    _threads("running_at_exit", "main_ends = threading.Event()\ndef run():\n    main_ends.wait(); time.sleep(0.3); work(); print('thread ends')\nthreading.Thread(target=run).start()\nprint('main ends'); main_ends.set()\n", says="main ends\nthread ends", keeps={"work": 1}),
    _threads("main_fails_thread_goes_on", "def run():\n    time.sleep(0.3); work(); print('thread ends')\nthreading.Thread(target=run).start()\n1/0\n", status=1, says="thread ends", keeps={"work": 1}),
    _threads("main_exits_thread_goes_on", "def run():\n    time.sleep(0.3); work()\nthreading.Thread(target=run).start()\nsys.exit(5)\n", status=5, keeps={"work": 1}),
    _threads("daemon_in_a_sleep", "def run():\n    work(); run_began.set(); time.sleep(100)\nthreading.Thread(target=run, daemon=True).start(); run_began.wait()\nprint('main ends')\n", keeps={"work": 1}),
    _threads("daemon_waiting_for_a_lock", "lock = threading.Lock(); lock.acquire()\ndef run():\n    work(); run_began.set(); lock.acquire()\nthreading.Thread(target=run, daemon=True).start(); run_began.wait()\n", keeps={"work": 1}),
    _threads("daemon_busy", "def run():\n    work(); run_began.set()\n    while True: work()\nthreading.Thread(target=run, daemon=True).start(); run_began.wait(); time.sleep(0.2)\nprint('main ends')\n", says="main ends", keeps="work"),
    _threads("daemons_busy_many", "def run():\n    work(); run_began.set()\n    while True: work()\nfor i in range(8): threading.Thread(target=run, daemon=True).start()\nrun_began.wait(); time.sleep(0.2)\nprint('main ends')\n", says="main ends", keeps="work"),
    _threads("daemon_writing", "null = open('/dev/null', 'w')\ndef run():\n    while True: null.write('x' * 100); work(); run_began.set()\nthreading.Thread(target=run, daemon=True).start(); run_began.wait(); time.sleep(0.1)\nprint('main ends')\n", keeps="work"),
    _threads("daemon_deep_in_calls", "def run(n):\n    if n: run(n - 1)\n    run_began.set(); time.sleep(100)\nthreading.Thread(target=run, args=(200,), daemon=True).start(); run_began.wait(); work()\n", keeps={"work": 1, "run": 201}),
    _threads("daemon_and_os_exit", "def run():\n    work(); run_began.set()\n    while True: work()\nthreading.Thread(target=run, daemon=True).start(); run_began.wait()\nos._exit(4)\n", status=4, state=None, keeps="work"),
    _threads("main_ends_in_a_daemon_reading_stdin", "def run():\n    work(); run_began.set(); os.read(r, 1)\nr, w = os.pipe()\nthreading.Thread(target=run, daemon=True).start(); run_began.wait()\n", keeps={"work": 1}),
    Case(
        "pool_not_shut_down",
        """
        from concurrent.futures import ThreadPoolExecutor
        import time
        def work(n):
            time.sleep(0.05); print(n, flush=True)
            return n
        pool = ThreadPoolExecutor(1)
        futures = [pool.submit(work, n) for n in range(4)]
        print("main ends", flush=True)
        """,
        says="3",
        keeps={"work": 4},
    ),
    Case(
        "pool_results_and_errors",
        """
        from concurrent.futures import ThreadPoolExecutor
        def work(n): return 1 / n
        with ThreadPoolExecutor(4) as pool:
            print(list(pool.map(work, [1, 2, 4])))
            try: pool.submit(work, 0).result()
            except ZeroDivisionError as error: print(error)
        """,
        keeps={"work": 4},
    ),
    _threads("timer", "threading.Timer(0.1, work).start()\n", keeps={"work": 1}),
    _threads("raw_thread", "import _thread\ndone = threading.Event()\ndef run(n):\n    work(); done.set()\n_thread.start_new_thread(run, (1,)); done.wait(); time.sleep(0.05)\n", keeps={"work": 1}),
    _threads("thread_made_by_c", "import ctypes\nC = ctypes.CDLL(None)\nF = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)\n@F\ndef entry(arg):\n    work()\n    return None\nident = ctypes.c_ulong()\nprint(C.pthread_create(ctypes.byref(ident), None, entry, None))\nC.pthread_join(ident, None)\nprint('joined')\n", says="joined", keeps={"work": 1, "entry": 1}),
    _threads("thread_states_come_and_go_in_c", "import ctypes\nC = ctypes.CDLL(None)\nF = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)\n@F\ndef entry(arg):\n    work()\n    return None\nfor i in range(100):\n    ident = ctypes.c_ulong()\n    C.pthread_create(ctypes.byref(ident), None, entry, None); C.pthread_join(ident, None)\nprint('joined')\n", keeps={"work": 100}),
    _threads("error_and_hook", "def run():\n    work(); 1/0\nthreading.excepthook = lambda a: print('hook', a.exc_type.__name__, a.thread.name)\nt = threading.Thread(target=run, name='w'); t.start(); t.join()\n", says="hook ZeroDivisionError w"),
    _threads("names_and_idents", "def run():\n    work(); print(threading.current_thread().name, threading.get_native_id() != os.getpid())\nfor name in ('one', 'twö', '', 'x' * 100, 'a\\nb'):\n    t = threading.Thread(target=run, name=name); t.start(); t.join()\n", keeps={"work": 5}),
    _threads("locals_die", "class D:\n    def __del__(self): print('dead')\nlocal = threading.local()\ndef run():\n    local.x = D(); work()\nt = threading.Thread(target=run); t.start(); t.join(); print('joined')\n", says="dead"),
    _threads("switch_interval", "sys.setswitchinterval(1e-5)\ndef run():\n    for i in range(3000): work()\nts = [threading.Thread(target=run) for i in range(4)]\nfor t in ts: t.start()\nfor t in ts: t.join()\nprint(sys.getswitchinterval())\n", keeps={"work": 12000, "run": 4}),
    _threads("started_in_atexit", "def late():\n    try:\n        t = threading.Thread(target=work); t.start(); t.join(); print('ran')\n    except RuntimeError as error: print(error)\natexit.register(late)\n", keeps="late"),
    _threads("atexit_order", "for i in range(3): atexit.register(print, i)\natexit.register(work)\n", says="2\n1\n0", keeps={"work": 1}),
    _threads("atexit_after_threads", "atexit.register(lambda: (work(), print('atexit', threading.active_count())))\ndef run(): time.sleep(0.2); print('thread')\nthreading.Thread(target=run).start()\n", says="thread\natexit 1", keeps={"work": 1}),
    _threads("atexit_registers_more", "def one():\n    print('one'); atexit.register(two)\ndef two():\n    print('two'); work()\natexit.register(one)\n", says="one", keeps="one"),
    _threads("threading_atexit", "threading._register_atexit(lambda: (print('early'), work()))\natexit.register(print, 'late')\n", says="early\nlate", keeps={"work": 1}),
    Case(
        "teardown_order",
        """
        import atexit, weakref, sys
        class Thing:
            def __init__(self, name): self.name = name
            def __del__(self): print("del", self.name, sys is not None)
        def work():
            weakref.finalize(a, print, "finalize a")
        a = Thing("a"); b = Thing("b")
        cycle = Thing("cycle"); cycle.self = cycle
        atexit.register(print, "atexit")
        work()
        print("end")
        """,
        says="end\nfinalize a\natexit\ndel",
    ),
    Case(
        "del_calls_functions_at_teardown",
        """
        class Thing:
            def __del__(self, print=print):
                helper(print)
        def helper(print): print("helped")
        def work(): return 1
        import builtins
        builtins.kept = Thing()
        builtins.helper = helper
        work()
        """,
        says="helped",
        keeps={"work": 1},
    ),
    Case(
        "del_runs_python_very_late",
        """
        import sys
        class Thing:
            def __del__(self): deep(50)
        def deep(n):
            if n: deep(n - 1)
        def work(): return 1
        work()
        sys.modules["kept"] = Thing()
        sys.kept = Thing()
        """,
        keeps={"work": 1},
    ),
    Case(
        "generator_alive_at_teardown",
        """
        def work():
            try:
                yield 1
            finally:
                print("closed")
        g = work(); next(g)
        """,
        says="closed",
    ),
    Case(
        "stdout_flushed_at_the_end",
        WORK + "import sys\nsys.stdout.write('no newline')\nopen('left_open', 'w').write('text')\nf = open('open', 'w'); f.write('kept')\n",
        says="no newline",
    ),
    Case(
        "queue_and_events",
        """
        import queue, threading
        def work(n): return n * n
        def run():
            while (n := inbox.get()) is not None: outbox.put(work(n))
        inbox, outbox = queue.Queue(), queue.Queue()
        ts = [threading.Thread(target=run) for i in range(3)]
        for t in ts: t.start()
        for n in range(200): inbox.put(n)
        for t in ts: inbox.put(None)
        for t in ts: t.join()
        print(sum(outbox.get() for n in range(200)))
        """,
        says="2646700",
        keeps={"work": 200, "run": 3},
    ),
    Case(
        "exception_injected",
        """
        import ctypes, threading, time
        class Stop(Exception): pass
        def work():
            ready.set()
            while True: time.sleep(0.001)
        def run():
            try: work()
            except Stop: print("stopped")
        ready = threading.Event()
        t = threading.Thread(target=run); t.start(); ready.wait()
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(t.ident), ctypes.py_object(Stop))
        t.join()
        """,
        says="stopped",
    ),
    Case(
        "subinterpreter",
        """
        import sys
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
        else:
            import _xxsubinterpreters as interpreters
        def work():
            one = interpreters.create()
            run = getattr(interpreters, "run_string", None) or interpreters.exec
            run(one, "def inner(): return 1\\nfor i in range(10): inner()\\nprint('inside', flush=True)")
            interpreters.destroy(one)
        work()
        print("after")
        def later(): return 1
        later()
        """,
        says="inside\nafter",
        keeps={"work": 1, "later": 1},
    ),
]
