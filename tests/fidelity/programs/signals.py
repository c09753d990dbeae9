"""Signals: default, own and ignoring handlers, timers, Ctrl-C on a terminal."""

from signal import SIGALRM, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1

from ..cases import WORK, Case

_READY = "import os, signal, sys, time\nprint('ready', flush=True)\n"
_NAP = "def nap():\n    time.sleep(15)\nnap()\n"
_HARD = {"state": "incomplete", "keeps": {"work": 1}}
_STOPPED = {"keeps": {"work": 1}}  # as services are, by SIGTERM, SIGINT or SIGHUP: complete


def _signalled(name: str, source: str, sends: int, **more) -> Case:
    return Case(name, WORK + source, sends=sends, **{"keeps": {"work": 1}, **more})


CASES = [
    *(
        _signalled(f"{signal.name.lower()}_default", _READY + _NAP, signal, status=-signal,
                   **(_STOPPED if signal in (SIGTERM, SIGHUP) else _HARD))
        for signal in (SIGTERM, SIGHUP, SIGUSR1, SIGQUIT, SIGALRM, SIGKILL)
    ),
    _signalled("sigint_default", _READY + _NAP, SIGINT, status=-SIGINT, says="KeyboardInterrupt", state=None),
    _signalled("sigint_caught", _READY + "try: time.sleep(15)\nexcept KeyboardInterrupt: print('caught')\n", SIGINT, says="caught"),
    _signalled("sigint_finally", _READY + "try: time.sleep(15)\nfinally: print('finally')\n", SIGINT, status=-2, says="finally", state=None),
    _signalled("sigint_default_action", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n" + _READY + _NAP, SIGINT, status=-2, **_STOPPED),
    _signalled("sigint_ignored_from_outside", _READY + "time.sleep(0.5)\nprint('alive')\n", SIGINT, ignored=(SIGINT,), says="alive"),
    _signalled("sighup_ignored_from_outside", _READY + "time.sleep(0.5)\nprint('alive')\n", SIGHUP, ignored=(SIGHUP,), says="alive"),
    _signalled("sigint_busy", "def spin():\n    while True: pass\n" + _READY + "try: spin()\nexcept KeyboardInterrupt: print('caught')\n", SIGINT, says="caught"),
    _signalled("sigterm_busy_in_calls", "def f(): return 1\ndef spin():\n    while True: f()\n" + _READY + "spin()\n", SIGTERM, status=-15),
    _signalled("sigkill_busy_in_calls", "def f(): return 1\ndef spin():\n    while True: f()\n" + _READY + "spin()\n", SIGKILL, status=-9, state="incomplete", keeps=("work", "f", "spin")),
    _signalled("sigterm_handled", "import signal, sys\ndef on_term(n, frame):\n    print('term', frame.f_code.co_name); sys.exit(7)\nsignal.signal(signal.SIGTERM, on_term)\n" + _READY + _NAP, SIGTERM, status=7, says="term nap", keeps={"work": 1, "on_term": 1}),
    _signalled("sigterm_handled_and_goes_on", "import signal\ntermed = []\ndef on_term(n, frame):\n    print('term'); termed.append(n)\nsignal.signal(signal.SIGTERM, on_term)\n" + _READY + "while not termed: time.sleep(0.1)\nprint('end')\n", SIGTERM, says="term\nend"),
    _signalled("sigterm_ignored", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + _READY + "time.sleep(0.4)\nprint('end')\n", SIGTERM, says="end"),
    _signalled("sigterm_raises", "import signal\ndef on_term(n, frame): raise ValueError('term')\nsignal.signal(signal.SIGTERM, on_term)\n" + _READY + "try: time.sleep(15)\nexcept ValueError as e: print(e)\n", SIGTERM, says="term"),
    _signalled("sigterm_handler_kills_again", "import os, signal\ndef on_term(n, frame):\n    signal.signal(n, signal.SIG_DFL); os.kill(os.getpid(), n)\nsignal.signal(signal.SIGTERM, on_term)\n" + _READY + _NAP, SIGTERM, status=-15, **_STOPPED),
    _signalled("sigterm_with_threads", "import threading\nfor i in range(3): threading.Thread(target=lambda: time.sleep(15)).start()\n" .replace("import threading", "import threading, time") + _READY + _NAP, SIGTERM, status=-15, **_STOPPED),
    _signalled("sigint_while_joining", "import threading, time\nstop = threading.Event()\nt = threading.Thread(target=stop.wait); t.start()\n" + _READY + "try: t.join()\nexcept KeyboardInterrupt: print('caught'); stop.set()\n", SIGINT, says="caught"),
    _signalled("sigint_at_thread_shutdown", "import threading, time\ndef run(): time.sleep(15)\nthreading.Thread(target=run).start()\n" + _READY, SIGINT, status=0, says="KeyboardInterrupt", state=None, compares_stderr=False),
    _signalled("wait_and_default_pending", "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n" + _READY + "print(signal.sigwait([signal.SIGTERM]))\n", SIGTERM, says="15"),
    _signalled("during_sleep_in_a_native_call", "import os, select, signal\nr, w = os.pipe()\ndef on_usr1(*_):\n    print('usr1'); os.write(w, b'x')\nsignal.signal(signal.SIGUSR1, on_usr1)\n" + _READY + "print(select.select([r], [], [], 100) == ([r], [], []))\n", SIGUSR1, says="usr1\nTrue"),
    _signalled("sigterm_while_in_atexit", "import atexit, time\natexit.register(time.sleep, 15)\n" + _READY, SIGTERM, status=-15, **_STOPPED),
    Case("kills_itself_by_sigterm", WORK + "import os\nos.kill(os.getpid(), 15)\n", status=-15, **_STOPPED),
    Case("raises_a_signal", WORK + "import signal\nsignal.raise_signal(signal.SIGUSR1)\n", status=-10, **_HARD),
    Case("kills_itself_by_sigint", WORK + "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n", status=-2, state=None, keeps={"work": 1}, says="KeyboardInterrupt"),
    Case("kills_its_group", WORK + "import os, signal\nsignal.signal(signal.SIGTERM, lambda *a: print('mine'))\nos.killpg(0, signal.SIGTERM)\nprint('end')\n", says="mine\nend"),
    Case(
        "sigpipe_default",
        WORK + "import signal, sys\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nprint('x' * 100, flush=True)\n",
        stdout="broken",
        status=-SIGPIPE,
        **_HARD,
    ),
    Case("broken_pipe", WORK + "print('x' * 100, flush=True)\n", stdout="broken", status=120, says="BrokenPipeError"),
    Case("broken_pipe_at_exit", WORK + "print('x')\n", stdout="broken", status=120, says="BrokenPipeError"),
    Case(
        "interval_timer",
        """
        import signal, time
        ticks = 0
        def on_tick(n, frame):
            global ticks
            ticks += 1
            if ticks == 5: signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, on_tick)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        def work():
            while ticks < 5: pass
        work()
        print(ticks)
        """,
        says="5",
        keeps={"work": 1, "on_tick": 5},
    ),
    Case(
        "profiling_timer",
        """
        import signal
        ticks = 0
        def on_tick(n, frame):
            global ticks
            ticks += 1
            if ticks == 3: signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, on_tick)
        signal.setitimer(signal.ITIMER_PROF, 0.02, 0.02)
        def work():
            while ticks < 3: sum(range(1000))
        work()
        print(ticks, signal.getitimer(signal.ITIMER_PROF))
        """,
        says="3 (0.0, 0.0)",
        keeps={"work": 1, "on_tick": 3},
    ),
    Case("alarm_default", WORK + "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.2)\ntime.sleep(100)\n", status=-14, **_HARD),
    Case("alarm_raises_out_of_work", "import signal\nclass Late(Exception): pass\ndef on_alarm(*a): raise Late\nsignal.signal(signal.SIGALRM, on_alarm)\ndef work():\n    signal.setitimer(signal.ITIMER_REAL, 0.1)\n    while True: pass\ntry: work()\nexcept Late: print('late')\n", says="late", keeps={"work": 1, "on_alarm": 1}),
    Case(
        "wakeup_descriptor",
        WORK + "import os, signal, socket\na, b = socket.socketpair(); b.setblocking(False)\nsignal.set_wakeup_fd(b.fileno())\nsignal.signal(signal.SIGUSR1, lambda *x: None)\nos.kill(os.getpid(), signal.SIGUSR1)\nprint(a.recv(10), signal.set_wakeup_fd(-1) == b.fileno())\n",
        says="b'\\n' True",
    ),
    Case(
        "asyncio_handler",
        """
        import asyncio, signal
        async def work():
            stop = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
            print("ready", flush=True)
            await asyncio.wait_for(stop.wait(), 10)
            print("stopped")
        asyncio.run(work())
        """,
        sends=SIGTERM,
        says="stopped",
    ),
    Case(
        "asyncio_sigint",
        """
        import asyncio
        async def work():
            try:
                print("ready", flush=True)
                await asyncio.sleep(10)
            finally:
                print("cleaned", flush=True)
        try: asyncio.run(work())
        except KeyboardInterrupt: print("interrupted")
        """,
        sends=SIGINT,
        says="cleaned\ninterrupted",
    ),
    Case(
        "signal_in_a_thread_only_program",
        """
        import signal, threading, os, time
        def handler(n, f): print("in", threading.current_thread().name)
        signal.signal(signal.SIGUSR1, handler)
        def work(): signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        t = threading.Thread(target=work); t.start(); t.join(); time.sleep(0.05)
        """,
        says="in MainThread",
        keeps={"work": 1, "handler": 1},
    ),
    Case("terminal", WORK + "import os, sys\nprint([os.isatty(n) for n in (0, 1, 2)], sys.stdout.line_buffering, os.tcgetpgrp(0) == os.getpgrp())\n", stdout="terminal", says="[True, True, True] True True"),
    Case("terminal_ctrl_c", WORK + _READY + _NAP, stdout="terminal", types=b"\x03", status=-2, says="KeyboardInterrupt", state=None),
    Case("terminal_ctrl_c_caught", WORK + _READY + "try: time.sleep(15)\nexcept KeyboardInterrupt: print('caught')\n", stdout="terminal", types=b"\x03", says="caught"),
    Case("terminal_ctrl_backslash", WORK + _READY + _NAP, stdout="terminal", types=b"\x1c", status=-3, **_HARD),
    Case("terminal_input", WORK + "print('ready', flush=True)\nprint(input('name? ').upper())\n", stdout="terminal", types=b"me\n", says="ME"),
    Case("terminal_end_of_input", WORK + "import sys\nprint('ready', flush=True)\nprint(len(sys.stdin.read()))\n", stdout="terminal", types=b"abc\n\x04", says="4"),
]
