"""Exit status: every form of sys.exit, and every place it can stand in."""

from ..cases import WORK, Case

_FORMS = {  # name: (statement, status, what stderr says)
    "nothing": ("sys.exit()", 0, ""),
    "none": ("sys.exit(None)", 0, ""),
    "zero": ("sys.exit(0)", 0, ""),
    "three": ("sys.exit(3)", 3, ""),
    "256": ("sys.exit(256)", 0, ""),
    "257": ("sys.exit(257)", 1, ""),
    "minus_one": ("sys.exit(-1)", 255, ""),
    "true": ("sys.exit(True)", 1, ""),
    "two_to_40": ("sys.exit(2**40)", 0, ""),
    "two_to_70": ("sys.exit(2**70)", 255, ""),
    "text": ("sys.exit('it is over')", 1, "it is over\n"),
    "empty_text": ("sys.exit('')", 1, "\n"),
    "surrogate": ("sys.exit('a\\udc80b')", 1, "a\\udc80b"),
    "tuple": ("sys.exit((1, 2))", 1, "(1, 2)"),
    "float": ("sys.exit(3.5)", 1, "3.5"),
    "bytes": ("sys.exit(b'x')", 1, "b'x'"),
    "int_subclass": ("sys.exit(type('Code', (int,), {})(5))", 5, ""),
    "raised_class": ("raise SystemExit", 0, ""),
    "raised_two": ("raise SystemExit(4, 5)", 1, "(4, 5)"),
    "subclass": ("raise type('Stop', (SystemExit,), {})(7)", 7, ""),
    "code_changed": ("stop = SystemExit(1); stop.code = 9; raise stop", 9, ""),
    "from_error": ("raise SystemExit(6) from ValueError('why')", 6, ""),
    "builtin_exit": ("exit(8)", 8, ""),
    "builtin_quit": ("quit('bye')", 1, "bye"),
    "unprintable": (
        "sys.exit(type('T', (), {'__str__': lambda self: 1/0})())",
        1,
        "",
    ),
}

CASES = [
    Case("falls_off_the_end", WORK + "print('done')\n", keeps={"work": 1}),
    *(
        Case(
            f"form_{name}",
            f"import sys\n\ndef work():\n    {statement}\n\nwork()\n",
            status=status,
            says=says,
            keeps={"work": 1},
        )
        for name, (statement, status, says) in _FORMS.items()
    ),
    Case(
        "in_finally",
        """
        import sys
        def work():
            try:
                raise ValueError("lost")
            finally:
                sys.exit(5)
        work()
        """,
        status=5,
    ),
    Case(
        "at_import",
        "import part\nprint('never')\n",
        files={"part.py": "def work():\n    raise SystemExit(11)\nwork()\n"},
        status=11,
    ),
    Case(
        "caught",
        """
        import sys
        def work():
            sys.exit(3)
        try:
            work()
        except SystemExit as stop:
            print("caught", stop.code)
        """,
        says="caught 3",
    ),
    Case(
        "in_atexit",
        WORK + "import atexit, sys\natexit.register(sys.exit, 4)\nprint('main')\n",
        says="main",
    ),
    Case(
        "in_a_thread",
        """
        import sys, threading
        def work():
            sys.exit(9)
        thread = threading.Thread(target=work)
        thread.start(); thread.join()
        print("alive")
        """,
        says="alive",
        keeps={"work": 1},
    ),
    Case(
        "in_del",
        """
        import sys
        class Thing:
            def __del__(self):
                sys.exit(2)
        def work():
            Thing()
        work()
        print("alive")
        """,
        says="alive",
        keeps=("work", "Thing.__del__"),
    ),
    Case(
        "in_generator_finally",
        """
        import sys
        def work():
            try:
                yield 1
            finally:
                sys.exit(12)
        g = work(); next(g); g.close()
        """,
        status=12,
    ),
    Case("in_class_body", WORK + "class A:\n    raise SystemExit(13)\n", status=13),
    Case("in_exec", WORK + "exec('import sys; sys.exit(14)')\n", status=14),
    Case("in_excepthook", WORK + "import sys\ndef hook(*a): sys.exit(15)\nsys.excepthook = hook\n1/0\n", status=15),
    Case(
        "os_exit",
        WORK + "import os\nprint('out', flush=True)\nos._exit(21)\n",
        status=21,
        keeps={"work": 1},
        state=None,
    ),
    Case(
        "os_exit_keeps_unflushed_text_unflushed",
        WORK + "import os\nprint('lost')\nos._exit(0)\n",
        state=None,
    ),
    Case(
        "os_exit_in_a_thread",
        WORK
        + """
import os, threading, time
threading.Thread(target=lambda: os._exit(22)).start()
time.sleep(15)
""",
        status=22,
        state=None,
    ),
    Case(
        "os_exit_deep_in_calls",
        """
        import os
        def work(n):
            if n == 0:
                os._exit(23)
            work(n - 1)
        work(50)
        """,
        status=23,
        keeps={"work": 51},
        state=None,
    ),
    Case("os_exit_in_atexit", WORK + "import atexit, os\natexit.register(os._exit, 24)\n", status=24, state=None),
    Case("abort", WORK + "import os\nos.abort()\n", status=-6, state="incomplete", keeps={"work": 1}),
    Case(
        "segfault",
        WORK + "import ctypes\nprint('going', flush=True)\nctypes.string_at(0)\n",
        status=-11,
        says="going",
        state="incomplete",
        keeps={"work": 1},
    ),
    Case(
        "segfault_with_faulthandler",
        WORK + "import ctypes, faulthandler\nfaulthandler.enable()\nctypes.string_at(0)\n",
        status=-11,
        says="Fatal Python error: Segmentation fault",
        state="incomplete",
    ),
    Case(
        "kills_itself",
        WORK + "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
        status=-9,
        state="incomplete",
        keeps={"work": 1},
    ),
    Case(
        "kills_itself_deep_in_calls",
        """
        import os
        def work(n):
            if n == 0:
                os.kill(os.getpid(), 9)
            work(n - 1)
        work(30)
        """,
        status=-9,
        state="incomplete",
        keeps={"work": 31},
    ),
    Case(
        "stdout_cannot_be_flushed",
        WORK + "print('x')\n",
        stdout="full",
        status=120,
        says="No space left on device",
    ),
]
