"""Programs that change or break what we might lean on at the end."""

from ..cases import WORK, Case

_BOOM = "def boom(*a, **k):\n    raise RuntimeError('patched')\n"


def _breaks(name: str, source: str, **more) -> Case:
    return Case(name, WORK + _BOOM + source, **{"keeps": {"work": 1}, **more})


CASES = [
    _breaks("time", "import time\nfor n in dir(time):\n    if callable(getattr(time, n)) and n != 'struct_time': setattr(time, n, boom)\n"),
    _breaks("time_gives_nonsense", "import time\ntime.time = time.perf_counter = time.monotonic = time.perf_counter_ns = lambda: 'noon'\n"),
    _breaks("open", "import builtins, io\nbuiltins.open = io.open = boom\n"),
    _breaks("print_and_len", "import builtins\nbuiltins.print = builtins.len = builtins.isinstance = builtins.type = boom\n"),
    _breaks("import", "import builtins\nbuiltins.__import__ = boom\n"),
    _breaks("exit_functions", "import os, sys, atexit\nos._exit = sys.exit = os.abort = boom\natexit.register(print, 'last')\n", says="last"),
    _breaks(
        "os_functions",
        "import os, posix\n"
        "for n in ('open', 'write', 'read', 'close', 'fork', 'getpid', 'stat', 'unlink', 'rename', 'mkdir', 'getcwd', 'fspath', 'execv', 'execve', 'posix_spawn', 'waitpid', 'environ', 'listdir', 'urandom'):\n"
        "    setattr(os, n, boom); setattr(posix, n, boom)\n",
    ),
    _breaks("os_path", "import os\nfor n in dir(os.path):\n    if callable(getattr(os.path, n)): setattr(os.path, n, boom)\n"),
    _breaks("environment_cleared", "import os\nos.environ.clear()\n"),
    _breaks("environment_replaced", "import os\nos.environ = {'A': 1}\n"),
    _breaks("environment_of_c_cleared", "import ctypes\nctypes.CDLL(None).clearenv()\n"),
    _breaks("threading", "import threading\nfor n in dir(threading):\n    if not n.startswith('__') and n not in ('_shutdown', '_main_thread'): setattr(threading, n, boom)\n"),
    _breaks("threading_shutdown", "import threading\nthreading._shutdown = boom\n", compares_stderr=True),
    _breaks("stdlib_modules", "import json, sqlite3, subprocess, tempfile, uuid, pathlib, struct, pickle\nfor m in (json, sqlite3, subprocess, tempfile, uuid, pathlib, struct, pickle):\n    for n in list(vars(m)):\n        if not n.startswith('__') and callable(getattr(m, n)): setattr(m, n, boom)\n"),
    _breaks("subprocess", "import subprocess\nsubprocess.Popen = subprocess.run = boom\n"),
    _breaks("modules_blocked", "import sys\nfor n in ('json', 'sqlite3', 'os', 'time', 'threading', 'subprocess', 'taupy', 'struct', 'signal'):\n    sys.modules[n] = None\n"),
    _breaks("modules_cleared", "import sys\nprint('last')\nsys.modules.clear()\n"),
    _breaks("path_cleared", "import sys\nsys.path.clear(); sys.path_hooks.clear(); sys.path_importer_cache.clear()\n"),
    _breaks("finders_cleared", "import sys\nsys.meta_path.clear()\n"),
    _breaks("path_full_of_rubbish", "import sys\nsys.path[:] = [1, None, b'x', '/dev/null']\n"),
    _breaks("standard_streams_none", "import sys\nprint('before')\nsys.stdout = sys.stderr = sys.stdin = None\n", says="before"),
    _breaks("standard_streams_deleted", "import sys\nprint('before')\ndel sys.stdout, sys.stderr, sys.stdin\n", says="before"),
    _breaks("standard_streams_closed", "import sys\nprint('before')\nsys.stdout.close(); sys.stderr.close(); sys.stdin.close()\n", says="before"),
    _breaks("standard_streams_replaced", "import io, sys\nsys.stdout = io.StringIO()\nprint('swallowed')\nsys.__stdout__.write('said\\n')\n", says="said"),
    _breaks("atexit_cleared", "import atexit\natexit._clear()\natexit.register(print, 'mine')\n", says="mine"),
    _breaks("atexit_run_early", "import atexit\natexit.register(print, 'mine')\natexit._run_exitfuncs()\nprint('after')\ndef later(): return 1\nlater()\n", says="after", keeps={"work": 1, "later": 1}),
    _breaks("executable_changed", "import sys\nsys.executable = '/nowhere/python'; sys.prefix = sys.exec_prefix = sys.base_prefix = '/nowhere'\n"),
    _breaks("executable_empty", "import sys\nsys.executable = None; sys.argv = None; sys.flags = None\n"),
    _breaks("argv_changed", "import sys\nsys.argv[:] = ['other', 'words']\nsys.orig_argv.clear()\n"),
    _breaks("gc_off_and_frozen", "import gc\ngc.disable(); gc.freeze()\n"),
    _breaks("locale_and_decimal", "import decimal, locale\ndecimal.getcontext().prec = 1\ndecimal.DefaultContext.prec = 1\ntry: locale.setlocale(locale.LC_ALL, 'de_DE.UTF-8')\nexcept locale.Error: pass\n"),
    _breaks("umask", "import os\nos.umask(0o777)\nopen('shut', 'w').close()\n"),
    _breaks("signal_module", "import signal\nsignal.signal = boom; signal.pthread_sigmask = boom\n"),
    _breaks("warnings_are_errors", "import warnings\nwarnings.simplefilter('error')\nwarnings.showwarning = boom\n"),
    _breaks("excepthooks", "import sys, threading\nsys.excepthook = sys.unraisablehook = sys.displayhook = threading.excepthook = boom\n"),
    _breaks("codecs", "import codecs, encodings\ncodecs.lookup = codecs.encode = codecs.decode = boom\nencodings.search_function = boom\n"),
    _breaks("sys_functions", "import sys\nfor n in ('exc_info', '_getframe', 'getprofile', 'setprofile', 'settrace', 'gettrace', 'intern', 'getsizeof', 'addaudithook', '_current_frames'):\n    setattr(sys, n, boom)\n"),
    _breaks("sys_monitoring", "import sys\nfor n in dir(sys.monitoring):\n    if callable(getattr(sys.monitoring, n)): setattr(sys.monitoring, n, boom)\ndef later(): return 1\nlater()\n", since=(3, 12), keeps={"work": 1, "later": 1}),
    _breaks(
        "audit_hook_refuses_all",
        "import sys\nprint('before')\ndef refuse(event, args):\n    raise RuntimeError(event)\nsys.addaudithook(refuse)\ndef later(): return 1\nlater()\n",
        keeps={"work": 1, "later": 1},
        status=0,
        compares_stderr=True,
    ),
    _breaks(
        "audit_hook_ends_the_process",
        "import os, sys\nsys.stdout.flush()\nleave = os._exit\ndef refuse(event, args):\n    if not event.startswith(('cpython.', 'gc.')): leave(33)\nsys.addaudithook(refuse)\ndef later(): return 1\nlater()\n",
        keeps={"work": 1, "later": 1},
        state=None,
    ),
    _breaks("globals_cleared", "import sys\nfor name in list(sys.modules):\n    if name not in ('sys', 'builtins', '__main__'):\n        vars(sys.modules[name]).clear()\n"),
    _breaks("malloc_hook_free", "import ctypes\nctypes.pythonapi.PyMem_Malloc\n"),
    _breaks("everything_at_once", "import atexit, builtins, os, sys, time, threading\nos.environ.clear(); sys.path.clear(); time.time = boom; builtins.open = boom\nos.chdir('/'); os.closerange(3, 64)\nsys.modules.clear()\n"),
]
