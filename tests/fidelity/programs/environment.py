"""Environment variables that shape the interpreter, seen by the program as they were."""

from ..cases import WORK, Case

_SHOW = (
    WORK
    + """
import locale, os, sys
print(sorted(os.environ.items()))
print(sys.flags, sys.path[0], sys.path[-1].startswith("/"))
print(sys.stdout.encoding, sys.stdout.errors, sys.stdin.encoding, sys.stderr.errors)
print(sys.getfilesystemencoding(), locale.getpreferredencoding(False), locale.setlocale(locale.LC_ALL))
print(hash("abc") == hash("abc"), sys.flags.hash_randomization, sys.breakpointhook)
"""
)


def _variable(name: str, source: str = _SHOW, **variables: str) -> Case:
    return Case(name, source, environment=variables)


CASES = [
    _variable("as_given"),
    _variable("io_encoding", PYTHONIOENCODING="latin-1:replace"),
    _variable("io_encoding_output", WORK + "print('é€')\n", PYTHONIOENCODING="latin-1:replace"),
    _variable("utf8_on_in_c", PYTHONUTF8="1", LC_ALL="C"),
    _variable("utf8_off_in_c", PYTHONUTF8="0", LC_ALL="C", PYTHONCOERCECLOCALE="0"),
    _variable("posix_locale", LC_ALL="POSIX", LANG=""),
    _variable("unknown_locale", LC_ALL="xx_YY.UTF-8"),
    _variable("hash_seed", WORK + "print(hash('abc'), list({'a', 'b', 'c', 'd'}))\n", PYTHONHASHSEED="42"),
    _variable("hash_seed_zero", WORK + "print(hash('abc'), hash(b'x'))\n", PYTHONHASHSEED="0"),
    _variable("path", WORK + "import sys\nprint(sys.path[:4])\n", PYTHONPATH="$WORK/lib::/nowhere"),
    _variable("startup_is_ignored", PYTHONSTARTUP="/nowhere/startup.py"),
    _variable("no_bytecode", WORK + "import sys\nprint(sys.dont_write_bytecode)\n", PYTHONDONTWRITEBYTECODE="1"),
    _variable("safe_path", PYTHONSAFEPATH="1"),
    _variable("optimise", PYTHONOPTIMIZE="2"),
    _variable("warnings", WORK + "import sys, warnings\nprint(sys.warnoptions)\nwarnings.warn('w', ImportWarning)\n", PYTHONWARNINGS="always,ignore::BytesWarning"),
    _variable("unbuffered", PYTHONUNBUFFERED="1"),
    _variable("developer_mode", PYTHONDEVMODE="1"),
    _variable("no_user_site", PYTHONNOUSERSITE="1"),
    _variable("breakpoint_off", WORK + "breakpoint()\nprint('on')\n", PYTHONBREAKPOINT="0"),
    _variable("breakpoint_own", WORK + "breakpoint()\n", PYTHONBREAKPOINT="os.getcwd"),
    _variable("faulthandler", PYTHONFAULTHANDLER="1"),
    _variable("tracemalloc", WORK + "import tracemalloc\nprint(tracemalloc.is_tracing(), tracemalloc.get_traceback_limit())\n", PYTHONTRACEMALLOC="5"),
    _variable("malloc_debug", PYTHONMALLOC="debug"),
    _variable("malloc_plain", PYTHONMALLOC="malloc"),
    Case(
        "pycache_prefix",
        WORK + "import sys\nprint(sys.pycache_prefix)\n",
        environment={"PYTHONPYCACHEPREFIX": "$WORK/cache"},
        unlike=b"work/cache(/|$)",
    ),
    _variable("time_zone", WORK + "import time\nprint(time.tzname, time.localtime(0)[:5])\n", TZ="XYZ-3"),
    _variable("odd_values", EMPTY="", NEWLINE="a\nb", EQUALS="a=b", UNICODE="é"),
    Case(
        "inspect",
        WORK,
        environment={"PYTHONINSPECT": "1"},
        stdin=b"print(work())\n",
    ),
    Case("no_home", WORK + "import os\nprint(sorted(os.environ))\n", environment={"HOME": None}),
    Case("no_path", WORK + "import os\nprint(sorted(os.environ))\n", environment={"PATH": None}),
    Case("home_is_missing", WORK, environment={"HOME": "/nowhere/home"}),
    Case("tmpdir_is_missing", WORK, environment={"TMPDIR": "/nowhere/tmp"}),
    Case(
        "sitecustomize_runs_once",
        WORK + "import builtins, sys\nprint(builtins.seen, 'sitecustomize' in sys.modules)\n",
        files={"lib/sitecustomize.py": "import builtins\nbuiltins.seen = getattr(builtins, 'seen', 0) + 1\n"},
        environment={"PYTHONPATH": "$WORK/lib", "PYTHONDONTWRITEBYTECODE": "1"},
        says="1 True",
    ),
    Case(
        "sitecustomize_fails",
        WORK,
        files={"lib/sitecustomize.py": "1/0\n"},
        environment={"PYTHONPATH": "$WORK/lib", "PYTHONDONTWRITEBYTECODE": "1"},
        says="Error in sitecustomize",
        compares_stderr=False,  # the command's own interpreter tells it as well
    ),
    Case(
        "sitecustomize_profiles",
        "import sys\n" + WORK + "print(sys.getprofile() is not None)\n",
        files={
            "lib/sitecustomize.py": "import sys\ndef hook(*event): pass\nsys.setprofile(hook)\n"
        },
        environment={"PYTHONPATH": "$WORK/lib", "PYTHONDONTWRITEBYTECODE": "1"},
        says="True",
        keeps=(),
    ),
    Case(
        "children_see_it_too",
        WORK
        + "import os, subprocess, sys\nos.environ['MINE'] = '1'\n"
        + "code = 'import os; print(sorted(os.environ))'\n"
        + "print(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout)\n",
        says="MINE",
    ),
    Case(
        "foreign_children_see_no_broken_line",
        WORK + "import subprocess\nsubprocess.run(['env', '-u', 'TAUPY_BOOT'])\n",
        says="HOME=",
    ),
]
