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
    Case(
        "children_see_the_environment_they_are_given",
        WORK
        + """
import os, subprocess, sys
code = "import os; print(sorted(os.environ.items())); print(sorted(os.environb.items()))"
again = "import subprocess, sys; subprocess.run([sys.executable, '-c', " + repr(code) + "])"
python = sys.executable
for env in ({}, {"A": "1"}, {**os.environ, "A": "1"}, {b"B": b"\\xff"}):
    for command in ([python, "-c", code], [python, "-c", again], ["nice", python, "-c", code]):
        if "PATH" in env or command[0] == python:
            print(subprocess.run(command, env=env, capture_output=True))
    pid = os.posix_spawn(python, [python, "-c", code], env)
    print(os.waitpid(pid, 0)[1], flush=True)
    if not os.fork():
        os.execve(python, [python, "-c", code], env)
    os.wait()
    for wrong in ({"A": 1}, {1: "A"}, {"A=B": "1"}, {"A": "\\0"}, {"": "1"}, 5, [("A", "1")]):
        for start in (os.posix_spawn, os.execve):
            try:
                start(python, [python, "-c", "print(7)"], wrong)
            except (TypeError, ValueError, AttributeError) as error:
                print(start.__name__, wrong, type(error), error)
        try:
            print(subprocess.run([python, "-c", "print(7)"], env=wrong))
        except (TypeError, ValueError, AttributeError) as error:
            print(wrong, type(error), error)
""",
        says="A",
        state=None,
    ),
    Case(
        "mappings_are_asked_as_often_as_ever",
        WORK
        + """
import os, sys
class Mine(dict):
    def asked(self): pass
    def __len__(self): self.asked(); return super().__len__()
    def __getitem__(self, key): self.asked(); return super().__getitem__(key)
    def keys(self): self.asked(); return super().keys()
    def values(self): self.asked(); return super().values()
    def items(self): self.asked(); return super().items()
print(os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", ""], Mine(A="1")), 0)[1])
""",
        says="0",
        keeps={"Mine.asked": 3},
    ),
]
