"""What a program sees and shows of its own stack: no frame of ours in it."""

from ..cases import WORK, Case


def _raises(name: str, body: str, says: str, **more) -> Case:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return Case(name, f"def work():\n{lines}work()\n", **{"status": 1, "says": says, **more})


CASES = [
    _raises("uncaught", "raise ValueError('bad')", "ValueError: bad"),
    _raises("division", "return 1 / 0", "ZeroDivisionError"),
    _raises("base_exception", "raise type('Odd', (BaseException,), {})('x')", "Odd: x"),
    _raises("notes", "e = ValueError('bad')\ne.add_note('first')\ne.add_note('second')\nraise e", "second"),
    _raises(
        "chained",
        "try:\n    {}['key']\nexcept KeyError as error:\n    raise RuntimeError('no') from error",
        "direct cause",
    ),
    _raises("context", "try:\n    {}['key']\nexcept KeyError:\n    raise RuntimeError('no')", "During handling"),
    _raises("context_hidden", "try:\n    {}['key']\nexcept KeyError:\n    raise RuntimeError('no') from None", "no"),
    _raises(
        "groups",
        "raise ExceptionGroup('all', [ValueError(1), ExceptionGroup('in', [TypeError(2)])])",
        "ExceptionGroup: all",
    ),
    _raises("name_suggestion", "value = 1\nreturn valu", "Did you mean"),
    _raises("key", "return {}['\\n']", "KeyError"),
    _raises("generator_exit", "raise GeneratorExit", "GeneratorExit"),
    _raises("stop_iteration", "raise StopIteration(3)", "StopIteration: 3"),
    _raises("keyboard_interrupt", "raise KeyboardInterrupt", "KeyboardInterrupt", status=-2, state=None),
    _raises(
        "unprintable_error",
        "raise type('Odd', (Exception,), {'__str__': lambda self: 1/0})()",
        "exception str() failed",
    ),
    _raises("exec_syntax_error", "exec('a b', {})", "SyntaxError"),
    _raises("surrogate_message", "raise ValueError('\\udc80')", "ValueError"),
    _raises(
        "excepthook",
        "import sys\nsys.excepthook = lambda *a: print('hook', a[0], a[2].tb_next.tb_next)\n1/0",
        "hook",
    ),
    _raises("excepthook_fails", "import sys\nsys.excepthook = lambda *a: {}[1]\n1/0", "Error in sys.excepthook"),
    _raises(
        "traceback_limit",
        "import sys\nsys.tracebacklimit = 0\n1/0",
        "ZeroDivisionError",
    ),
    Case(
        "syntax_error_in_script",
        "def work():\n    return 1 +\n",
        status=1,
        says="SyntaxError",
        keeps=(),
        trials=None,
        state=None,
    ),
    Case("tab_error", "if 1:\n\tx = 1\n        y = 2\n", status=1, says="TabError", keeps=(), trials=None, state=None),
    Case(
        "null_byte",
        files={"prog.py": b"print(1)\0\n"},
        status=1,
        says="null byte",
        keeps=(),
        trials=None,
        state=None,
        since=(3, 12),
    ),
    Case(
        "syntax_error_in_import",
        WORK + "import part\n",
        files={"part.py": "x = = 1\n"},
        status=1,
        says="part.py",
    ),
    Case(
        "missing_script",
        target="nowhere.py",
        status=2,
        says="can't open file",
        keeps=(),
        trials=None,
        state=None,
        compares_stderr=False,  # taupy says it, with the file of the nearest name
    ),
    Case("missing_module", kind="module", target="nowhere", status=1, says="No module named nowhere", keeps=(), trials=None, state=None),
    Case(
        "deep_traceback",
        """
        def work(n):
            return work(n - 1) if n else 1 / 0
        work(800)
        """,
        status=1,
        says="Previous line repeated",
        keeps={"work": 801},
    ),
    Case(
        "recursion_error_uncaught",
        "def work(n):\n    return work(n + 1)\nwork(0)\n",
        status=1,
        says="RecursionError: maximum recursion depth exceeded",
        shows_depth=True,
    ),
    Case(
        "last_value_seen_by_atexit",
        """
        import atexit, sys, traceback
        def work():
            raise ValueError("kept")
        def show():
            print(sys.last_type, [f.name for f in traceback.extract_tb(sys.last_traceback)])
            print(len(traceback.format_exception(sys.last_value)))
        atexit.register(show)
        work()
        """,
        status=1,
        says="['<module>', 'work']",
    ),
    Case(
        "stack_seen_from_inside",
        """
        import inspect, sys, traceback
        def work():
            print([(f.function, f.lineno, f.filename) for f in inspect.stack()])
            traceback.print_stack()
            print(sys._getframe(1).f_back)
            print("".join(traceback.format_stack()))
        work()
        """,
        says="None",
    ),
    Case(
        "stack_seen_in_a_module",
        """
        import inspect, sys, traceback
        def work():
            print([f.function for f in inspect.stack()])
            traceback.print_stack()
        work()
        """,
        kind="module",
        target="package.part",
        files={
            "package/__init__.py": "",
            "package/part.py": "import inspect, traceback\ndef work():\n    print([f.function for f in inspect.stack()])\n    traceback.print_stack()\nwork()\n",
        },
        says="_run_module_as_main",
    ),
    Case(
        "stack_seen_in_a_thread",
        """
        import threading, traceback
        def work():
            traceback.print_stack()
            print(len(traceback.extract_stack()))
        t = threading.Thread(target=work); t.start(); t.join()
        """,
    ),
    Case(
        "error_in_a_thread",
        """
        import threading
        def work():
            1/0
        t = threading.Thread(target=work, name="worker"); t.start(); t.join()
        """,
        says="Exception in thread worker",
    ),
    Case(
        "current_frames",
        """
        import sys, threading
        def work():
            for frame in sys._current_frames().values():
                while frame:
                    print(frame.f_code.co_name, frame.f_lineno)
                    frame = frame.f_back
        work()
        """,
    ),
    Case(
        "faulthandler_dump",
        """
        import faulthandler
        def work():
            faulthandler.dump_traceback()
        work()
        """,
        says="in work",
    ),
    Case(
        "faulthandler_all_threads",
        """
        import faulthandler, threading
        def work():
            faulthandler.dump_traceback(all_threads=True)
        t = threading.Thread(target=work); t.start(); t.join()
        """,
        says="in work",
    ),
    Case(
        "logging_callers",
        """
        import logging
        logging.basicConfig(format="%(levelname)s %(filename)s:%(lineno)d %(funcName)s %(pathname)s %(message)s")
        def work():
            logging.warning("here")
            logging.warning("caller", stacklevel=2)
            logging.warning("far", stacklevel=9)
            logging.warning("stack", stack_info=True)
            try:
                1/0
            except ZeroDivisionError:
                logging.exception("caught")
        work()
        """,
        says="prog.py",
    ),
    Case(
        "warning_stack_levels",
        """
        import warnings
        warnings.simplefilter("always")
        def work():
            for level in (1, 2, 3, 4, 50):
                warnings.warn(f"level {level}", stacklevel=level)
        work()
        def module_level():
            warnings.warn("old", DeprecationWarning, stacklevel=2)
        module_level()
        """,
        says="level 3",
    ),
    Case(
        "deprecation_shown_for_main",
        WORK + "import warnings\nwarnings.warn('old', DeprecationWarning)\n",
        says="DeprecationWarning: old",
    ),
    Case(
        "unraisable",
        """
        class Thing:
            def __del__(self):
                1/0
        def work():
            Thing()
        work()
        """,
        says="Exception ignored ",
    ),
    Case(
        "error_seen_again",
        """
        import sys, traceback
        def inner():
            raise ValueError("x")
        def work():
            try:
                inner()
            except ValueError as error:
                print(sys.exc_info()[0], traceback.format_exc())
                tb = error.__traceback__
                while tb:
                    print(tb.tb_frame.f_code.co_name, tb.tb_lineno)
                    tb = tb.tb_next
        work()
        print(sys.exc_info())
        """,
        says="inner",
        keeps={"work": 1, "inner": 1},
    ),
    Case(
        "error_in_atexit",
        WORK + "import atexit\ndef bad():\n    1/0\natexit.register(bad)\n",
        says="ZeroDivisionError",
    ),
    Case(
        "error_in_dash_c",
        "def work():\n    1/0\nwork()\n",
        kind="code",
        status=1,
        says='File "<string>", line 2, in work',
    ),
    Case(
        "error_in_stdin",
        "def work():\n    1/0\nwork()\n",
        kind="stdin",
        status=1,
        says='File "<stdin>", line 2, in work',
    ),
    Case("syntax_error_in_dash_c", "a b", kind="code", status=1, says="SyntaxError", keeps=(), trials=None, state=None),
    Case("syntax_error_in_stdin", "a b\n", kind="stdin", status=1, says="SyntaxError", keeps=(), trials=None, state=None),
    Case(
        "frame_locals_and_code",
        """
        import sys
        def work(a, b=2, *c, d=4, **e):
            f = sys._getframe()
            print(sorted(f.f_locals), f.f_trace, f.f_lasti, f.f_globals is globals())
            print(work.__code__ is f.f_code, f.f_back.f_code.co_name)
        work(1, 2, 3, z=1)
        """,
    ),
]
