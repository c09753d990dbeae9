"""The process as the program finds it: nothing of ours in it."""

import signal

from ..cases import WORK, Case


def _shows(name: str, source: str, **more) -> Case:
    return Case(name, WORK + source, **more)


CASES = [
    _shows("modules", "import sys\nprint(sorted(sys.modules))\n"),
    _shows("environment", "import os\nprint(sorted(os.environ.items()), sorted(os.environb)) \n"),
    _shows("path", "import sys\nprint(sys.path, sys.path_hooks, sorted(sys.path_importer_cache))\n"),
    _shows("finders", "import sys\nprint([str(type(f)) + str(f) for f in sys.meta_path])\n"),
    _shows(
        "signal_handlers",
        "import signal\nfor s in sorted(signal.valid_signals()):\n    print(s, signal.getsignal(s))\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.sigpending(), signal.getitimer(0), signal.getitimer(2))\n"
        "print(signal.set_wakeup_fd(-1))\n",
    ),
    _shows(
        "signal_dispositions_in_the_kernel",
        "print([l for l in open('/proc/self/status') if l.startswith(('SigP', 'SigB', 'SigI', 'Shd', 'Threads'))])\n"
        # The exception: a handler of SIGBUS, which Python does not know of (docs/fidelity.md).
        "caught = [int(l.split()[1], 16) for l in open('/proc/self/status') if l.startswith('SigCgt')][0]\n"
        "import signal\n"
        "print(hex(caught & ~(1 << signal.SIGBUS - 1)), signal.getsignal(signal.SIGBUS) is signal.SIG_DFL)\n",
        says="True",
    ),
    _shows("signals_ignored_before", "import signal\nprint(signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGINT))\n", ignored=(signal.SIGHUP, signal.SIGINT)),
    _shows("signals_blocked_before", "import signal\nprint(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n", blocked=(signal.SIGUSR1, signal.SIGTERM)),
    _shows(
        "threads",
        "import os, threading\nprint(threading.enumerate(), threading.active_count(), len(os.listdir('/proc/self/task')))\n".replace("threading.enumerate()", "[t.name for t in threading.enumerate()]"),
    ),
    _shows(
        "descriptors",
        "import os\nprint(sorted(os.listdir('/proc/self/fd'), key=int))\nf = open('new', 'w'); print(f.fileno())\n",
    ),
    _shows("descriptors_at_exit", "import atexit, os\natexit.register(lambda: print(sorted(os.listdir('/proc/self/fd'))))\n"),
    _shows(
        "hooks",
        "import sys, threading, warnings\n"
        "print(sys.getprofile(), sys.gettrace(), threading._profile_hook, threading._trace_hook)\n"
        "print(sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook, sys.breakpointhook)\n"
        "print(sys.get_asyncgen_hooks(), sys.get_coroutine_origin_tracking_depth(), warnings.showwarning.__module__)\n".replace(
            "threading.excepthook", "threading.excepthook is threading.__excepthook__"
        ),
    ),
    _shows("flags", "import sys\nprint(sys.flags, sys.orig_argv[1:], sys.argv, sys.warnoptions, sys._xoptions)\n"),
    _shows(
        "locale_decimal_random",
        "import decimal, locale, random\nprint(locale.setlocale(locale.LC_ALL), decimal.getcontext(), locale.localeconv())\n"
        "random.seed(3); print(random.random())\n",
    ),
    _shows("gc", "import gc\nprint(gc.isenabled(), gc.get_threshold(), gc.callbacks, gc.get_freeze_count(), gc.get_debug(), gc.garbage)\n"),
    _shows("limits", "import sys, resource\nprint(sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits())\nprint([resource.getrlimit(n) for n in range(16)])\n"),
    _shows("builtins", "import builtins\nprint(sorted(vars(builtins)), builtins.open, builtins.print, builtins.__import__)\n"),
    _shows("main_names", "print(sorted(globals()))\n"),
    _shows("atexit_count", "import atexit\nprint(atexit._ncallbacks())\n"),
    _shows("warnings_filters", "import warnings\nprint(warnings.filters, warnings.defaultaction)\n"),
    _shows("cwd_umask_nice", "import os\nprint(os.getcwd(), os.umask(0o22), os.nice(0), os.sched_getaffinity(0), os.getpriority(0, 0))\n"),
    _shows("command_line_in_the_kernel", "print(open('/proc/self/cmdline').read().split('\\0')[1:], open('/proc/self/comm').read())\n"),
    _shows("executable", "import os, sys\nprint(sys.executable, sys._base_executable, sys.prefix, os.readlink('/proc/self/exe'))\n"),
    _shows("parent_and_session", "import os\nprint(os.getpid() == os.getpgrp() == os.getsid(0), os.getppid() > 1)\n", says="True"),
    _shows("no_children", "import os\nprint(open(f'/proc/self/task/{os.getpid()}/children').read())\ntry: os.wait()\nexcept ChildProcessError as e: print(e)\n", says="No child processes"),
    _shows("tracing_tools", "import faulthandler, tracemalloc\nprint(faulthandler.is_enabled(), tracemalloc.is_tracing())\n"),
    _shows("stdio_objects", "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr):\n    print(s, s.line_buffering, s.write_through, type(s.buffer), s.isatty(), s.newlines)\n"),
    _shows("site", "import site, sys\nprint(site.ENABLE_USER_SITE, site.PREFIXES, [n for n in ('exit', 'quit', 'help', 'copyright') if n in dir(__builtins__)])\n"),
    _shows("import_state", "import importlib, sys\nprint(sys.dont_write_bytecode, sys.pycache_prefix, len(sys.path_hooks))\nimport os; print(os.__file__, os.__spec__.origin)\n"),
    _shows(
        "sets_of_functions",
        "import os\nsets = {name: value for name, value in vars(os).items() if isinstance(value, set)}\n"
        "for name, found in sorted(sets.items()): print(name, sorted(f.__name__ for f in found), all(f in found for f in found))\n"
        "print(os.execve in os.supports_fd)\n",
        says="True",
    ),
    _shows("inherited_descriptors", "import os\nprint([os.get_inheritable(n) for n in (0, 1, 2)])\n"),
    _shows("no_capabilities_lost", "print([l for l in open('/proc/self/status') if l.startswith(('Cap', 'Uid', 'Gid', 'NoNewPrivs', 'Seccomp'))])\n"),
    Case(
        "functions_are_untouched",
        """
        import sys
        def work(a, b=1):
            return a
        print(vars(work), work.__code__.co_flags, work.__code__.co_name, sys.getsizeof(work), work.__defaults__)
        work(1)
        import dis
        dis.dis(work)
        print(work.__code__.co_code.hex(), work.__code__ == work.__code__.replace())
        """,
        says="RETURN",
    ),
    Case(
        "objects_are_never_touched",
        """
        class Shy:
            def __getattribute__(self, name):
                seen.append(name)
                return object.__getattribute__(self, name)
            def __repr__(self): seen.append("repr"); return "shy"
            def __eq__(self, other): seen.append("eq"); return False
            def __hash__(self): seen.append("hash"); return 1
            def __bool__(self): seen.append("bool"); return True
            def __len__(self): seen.append("len"); return 1
            def work(self, other=None): return 1
            def more(self):
                yield self
        seen = []
        shy = Shy()
        work = Shy.work
        def bare(self, other): return other
        for i in range(3):
            work(shy, shy); bare(shy, shy); list(Shy.more(shy))
        print(seen)
        """,
        says="[]",
        keeps="Shy.work",
    ),
    Case(
        "metaclass_is_never_touched",
        """
        seen = []
        class Meta(type):
            def __getattribute__(cls, name):
                seen.append(name)
                return super().__getattribute__(name)
        class Thing(metaclass=Meta):
            def __init__(self): pass
        def work():
            del seen[:]
            Thing()
            print(seen)
        work()
        """,
        says="[",
    ),
    Case(
        "an_audit_hook_hears_nothing_of_us",
        """
        import sys
        heard = []
        sys.addaudithook(lambda event, args: heard.append(event))
        def work():
            return [n for n in range(3)]
        for i in range(100): work()
        print(heard[:])
        def at_end(): print(heard)
        import atexit
        atexit.register(at_end)
        """,
        keeps={"work": 100},
    ),
    Case(
        "objects_die_when_they_should",
        """
        import weakref
        class Thing: pass
        def work():
            thing = Thing()
            weakref.finalize(thing, print, "dead")
            del thing
            print("after")
        def kept():
            thing = Thing()
            weakref.finalize(thing, print, "dead at return")
        work(); kept(); print("returned")
        """,
        says="dead\nafter\ndead at return\nreturned",
    ),
    Case(
        "an_argument_dies_when_deleted",
        since=(3, 12),  # as above
        source="""
        class Thing:
            def __del__(self): print("dead")
        def work(thing):
            del thing
            print("after")
        work(Thing())
        """,
        says="dead\nafter",
    ),
    Case(
        "functions_and_code_are_freed",
        """
        import gc, weakref
        def make(n):
            scope = {}
            exec(f"def made_{n}():\\n    return {n}\\n", scope)
            scope[f"made_{n}"]()
            return weakref.ref(scope[f"made_{n}"])
        def work():
            alive = [make(n) for n in range(50)]
            gc.collect()
            return sum(ref() is not None for ref in alive)
        print(work())
        """,
        says="0",
        keeps={"work": 1, "made_7": 1},
    ),
    Case(
        "code_objects_are_freed",
        """
        import gc, weakref
        def make(n):
            scope = {}
            exec(f"def made():\\n    return {n}\\n", scope)
            scope["made"]()
            return weakref.ref(scope["made"].__code__)
        def work():
            alive = [make(n) for n in range(50)]
            gc.collect()
            return sum(ref() is not None for ref in alive)
        print(work())
        """,
        says="0",
    ),
    Case(
        # On 3.11 frame evaluation (PEP 523) makes every call one from C, whose caller
        # holds the arguments until it returns.
        "reference_counts",
        since=(3, 12),
        source="""
        import sys
        def work(thing):
            return sys.getrefcount(thing)
        thing = object()
        print(work(thing), sys.getrefcount(thing), sys.getrefcount(work), sys.getrefcount(work.__code__))
        """,
        keeps={"work": 1},
    ),
]
