"""fork, exec, spawn and children of every kind."""

import sys
from pathlib import Path

from ..cases import WORK, Case

_OTHERS = {
    f"{path.name[6:]}": str(path)
    for path in [
        *Path("/usr/bin").glob("python3.*[0-9]"),
        *Path(sys.base_prefix).parent.glob("*/bin/python3.*[0-9]"),
    ]
    if path.name != f"python{sys.version_info[0]}.{sys.version_info[1]}"
}
"""Other Pythons of this machine, by version."""

_START = "import os, sys, time, subprocess, signal\ndef work():\n    return 1\ndef child_work():\n    return 2\ndef flush(): sys.stdout.flush()\n"
_BOTH = {"work": 1, "child_work": 1}


def _processes(name: str, source: str, **more) -> Case:
    return Case(name, _START + source, **{"state": None, **more})


CASES = [
    _processes("fork_child_os_exits", "work()\npid = os.fork()\nif not pid:\n    child_work(); os._exit(3)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n", says="3", keeps=_BOTH),
    _processes("fork_child_exits", "work(); flush()\nif not os.fork():\n    child_work(); sys.exit(4)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))\n", says="4", keeps=_BOTH),
    _processes("fork_child_fails", "work(); flush()\nif not os.fork():\n    child_work(); 1/0\nprint(os.waitstatus_to_exitcode(os.wait()[1]))\n", says="1\n", keeps=_BOTH),
    _processes("fork_child_falls_off", "work(); flush()\npid = os.fork()\nif not pid: child_work()\nelse: os.waitpid(pid, 0)\nprint('end', bool(pid), flush=True)\n", says="end False\nend True", keeps=_BOTH),
    _processes("fork_child_killed", "work(); flush()\npid = os.fork()\nif not pid:\n    child_work(); os.kill(os.getpid(), 9)\nprint(os.waitpid(pid, 0)[1])\n", says="9", keeps=_BOTH),
    _processes("fork_parent_leaves_first", "work()\nif not os.fork():\n    null = os.open(os.devnull, os.O_RDWR)\n    for n in (0, 1, 2): os.dup2(null, n)\n    time.sleep(0.5); child_work()\n    open('late', 'w').write('done'); os._exit(0)\nprint('parent')\n", says="parent", awaits="late", keeps="work"),
    _processes("double_fork_daemon", "work()\nif not os.fork():\n    os.setsid()\n    if not os.fork():\n        null = os.open(os.devnull, os.O_RDWR)\n        for n in (0, 1, 2): os.dup2(null, n)\n        os.closerange(3, 256); os.chdir('/')\n        time.sleep(0.4); open(HERE + '/late', 'w').write('done'); os._exit(0)\n    os._exit(0)\nos.wait(); print('parent')\n".replace("work()\n", "HERE = os.getcwd()\nwork()\n", 1), says="parent", awaits="late", keeps="work"),
    _processes("fork_deep_in_calls", "def down(n):\n    if n: return down(n - 1)\n    pid = os.fork()\n    if not pid: child_work(); os._exit(0)\n    os.waitpid(pid, 0)\nwork(); down(100)\n", keeps=_BOTH),
    _processes("fork_returns_through_frames", "def split():\n    pid = os.fork()\n    return pid\ndef outer(): return split()\nwork(); flush()\nif not outer():\n    child_work(); sys.exit(0)\nos.wait(); print('end')\n", says="end", keeps=_BOTH),
    _processes("fork_ten", "work(); flush()\nfor i in range(10):\n    if not os.fork(): child_work(); os._exit(i)\nprint(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for i in range(10)))\n", says="[0, 1, 2", keeps={"work": 1, "child_work": 10}),
    _processes("fork_grandchildren", "work(); flush()\nif not os.fork():\n    if not os.fork():\n        child_work(); os._exit(0)\n    os.wait(); os._exit(5)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))\n", says="5", keeps=_BOTH),
    _processes("fork_with_busy_threads", "import threading\nrun_began = threading.Event()\ndef run():\n    work(); run_began.set()\n    while True: work()\nfor i in range(4): threading.Thread(target=run, daemon=True).start()\nrun_began.wait()\nimport warnings; warnings.simplefilter('ignore')\nfor i in range(5):\n    if not os.fork(): child_work(); os._exit(0)\nfor i in range(5): os.wait()\nprint('end')\n", says="end", keeps={"work": None, "child_work": 5}),
    _processes("fork_from_a_thread", "import threading, warnings\nwarnings.simplefilter('ignore')\ndef run():\n    pid = os.fork()\n    if not pid: child_work(); os._exit(0)\n    os.waitpid(pid, 0)\nt = threading.Thread(target=run); t.start(); t.join(); work()\n", keeps=_BOTH),
    _processes("fork_then_threads_in_child", "import threading\nwork(); flush()\nif not os.fork():\n    t = threading.Thread(target=child_work); t.start(); t.join(); sys.exit(0)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))\n", says="0", keeps=_BOTH),
    _processes("fork_and_at_fork_handlers", "os.register_at_fork(before=lambda: print('before', flush=True), after_in_child=lambda: print('child', flush=True), after_in_parent=lambda: 0)\nwork()\nif not os.fork(): os._exit(0)\nos.wait()\n", says="before\nchild", keeps="work"),
    _processes("fork_by_c", "import ctypes\nwork(); flush()\nlibc = ctypes.PyDLL(None)\nif not libc.fork():\n    child_work(); os._exit(6)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))\n", says="6", keeps="work"),
    _processes("fork_atexit_runs_twice", "import atexit\natexit.register(lambda: print('atexit', flush=True))\nwork(); flush()\nif os.fork(): os.wait()\n", says="atexit\natexit", keeps="work"),
    _processes("forked_child_waits_for_its_own", "work(); flush()\nif not os.fork():\n    try: os.wait()\n    except ChildProcessError: print('none', flush=True)\n    os._exit(0)\nos.wait()\ntry: os.wait()\nexcept ChildProcessError: print('none')\n", says="none\nnone", keeps="work"),
    _processes("wait_sees_own_children_only", "work()\np = subprocess.Popen(['true'])\npid, status = os.wait()\nprint(pid == p.pid, status)\ntry: os.waitpid(-1, os.WNOHANG)\nexcept ChildProcessError: print('none')\ndef at_end():\n    try: os.waitpid(-1, 0)\n    except ChildProcessError: print('none at the end')\nimport atexit; atexit.register(at_end)\n", says="True 0\nnone\nnone at the end", keeps="work", state="complete"),
    _processes("no_signal_of_children", "work()\nsignal.signal(signal.SIGCHLD, lambda *a: print('child signal'))\ntime.sleep(0.1)\n", keeps="work", state="complete"),
    _processes("children_ignored", "work()\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nsubprocess.run(['true'])\n", keeps="work", state="complete"),
    _processes("fork_in_a_terminal", "import pty\nwork(); flush()\npid, fd = pty.fork()\nif not pid:\n    child_work(); print('inside', os.isatty(1), flush=True); os._exit(0)\ntext = b''\ntry:\n    while part := os.read(fd, 100): text += part\nexcept OSError: pass\nos.waitpid(pid, 0); print(text)\n", says="inside True", keeps=_BOTH),
    _processes("vfork_by_subprocess", "work()\nprint(subprocess.run(['echo', 'hi'], capture_output=True).stdout)\n", says="hi", keeps="work", state="complete"),
    _processes("subprocess_same_python", "work(); flush()\nsubprocess.run([sys.executable, '-c', 'def child_work(): print(__name__)\\nchild_work()'], check=True)\n", says="__main__", keeps=_BOTH),
    _processes("subprocess_empty_environment", "work(); flush()\np = subprocess.run([sys.executable, '-c', 'import os; print(sorted(os.environ))'], env={}, capture_output=True, text=True)\nprint(p)\n", says="returncode=0", keeps="work"),
    _processes("subprocess_own_environment", "work(); flush()\np = subprocess.run([sys.executable, '-c', 'import os; print(os.environ[\"A\"])'], env={'A': 'mine'}, capture_output=True, text=True)\nprint(p)\n", says="mine", keeps="work"),
    _processes("subprocess_isolated", "work(); flush()\nfor option in ('-I', '-S', '-E', '-s', '-IS'):\n    print(subprocess.run([sys.executable, option, '-c', 'import sys; print(sys.flags)'], capture_output=True, text=True))\n", says="returncode=0", keeps="work"),
    *(
        _processes(f"subprocess_python_{version}", f"work(); flush()\nprint(subprocess.run([{path!r}, '-c', 'import os, sys; print(sys.version_info[:2], sys.executable, [m for m in sys.modules if \"taupy\" in m])'], capture_output=True, text=True))\n", says="returncode=0", keeps="work")
        for version, path in sorted(_OTHERS.items())
    ),
    *(
        _processes(f"execs_python_{version}", f"work(); flush()\nos.execv({path!r}, ['python', '-c', 'import os, sys; print(sys.version_info[:2])'])\n", says=version.replace(".", ", "), keeps="work", sees_the_end=False)
        for version, path in sorted(_OTHERS.items())
    ),
    _processes("subprocess_fails", "work(); flush()\nsubprocess.run([sys.executable, '-c', '1/0'])\nsubprocess.run([sys.executable, '-c', 'raise SystemExit(3)'], check=True)\n", status=1, says="CalledProcessError", keeps="work"),
    _processes("subprocess_killed", "work(); flush()\np = subprocess.Popen([sys.executable, '-c', 'import time\\ndef child_work(): pass\\nchild_work(); print(1, flush=True)\\ntime.sleep(9)'], stdout=-1)\np.stdout.readline(); p.terminate(); print(p.wait())\n", says="-15", keeps=_BOTH),
    _processes("subprocess_preexec_and_descriptors", "work()\nr, w = os.pipe()\nprint(subprocess.run(['ls', '/proc/self/fd'], pass_fds=(w,), preexec_fn=lambda: os.nice(1), capture_output=True, text=True).stdout)\n", says="0\n1\n2", keeps="work"),
    _processes("subprocess_outlives", "work()\nsubprocess.Popen(['sh', '-c', 'sleep 0.5; echo done >late'], stdin=-3, stdout=-3, stderr=-3)\nprint('parent')\n", says="parent", awaits="late", keeps="work", compares_stderr=True),
    _processes("subprocess_python_outlives", "work()\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(0.5); open(\"late\", \"w\").write(\"x\")'], stdin=-3, stdout=-3, stderr=-3)\nprint('parent')\n", says="parent", awaits="late", keeps="work"),
    _processes("system_and_popen", "work(); flush()\nprint(os.system('exit 3') >> 8, os.popen('echo x').read())\nos.system(f'{sys.executable} -c \"print(5)\"')\n", says="3 x", keeps="work"),
    _processes("shell_script_between", "work(); flush()\nos.system(f'{sys.executable} -c \"def child_work(): print(1)\nchild_work()\" | cat')\n".replace("\nchild_work", "\\nchild_work"), keeps=_BOTH, says="1"),
    _processes("posix_spawn", "work(); flush()\npid = os.posix_spawn('/bin/echo', ['echo', 'spawned'], os.environ)\nprint(os.waitpid(pid, 0)[1])\n", says="spawned", keeps="work", state="complete"),
    _processes("posix_spawn_python", "work(); flush()\npid = os.posix_spawn(sys.executable, [sys.executable, '-c', 'def child_work(): print(7)\\nchild_work()'], os.environ)\nprint(os.waitpid(pid, 0)[1])\n", says="7", keeps="work"),
    _processes("execs_echo", "work(); flush()\nos.execv('/bin/echo', ['echo', 'other'])\n", says="other", keeps={"work": 1}, sees_the_end=False),
    _processes("execs_echo_failing", "work(); flush()\nos.execvp('sh', ['sh', '-c', 'exit 7'])\n", status=7, keeps={"work": 1}, sees_the_end=False),
    _processes("execs_what_is_missing", "work()\ntry: os.execv('/nowhere', ['x'])\nexcept OSError as error: print(error)\ndef later(): return 1\nlater()\n", says="No such file", keeps={"work": 1, "later": 1}),
    _processes("execs_itself", "work(); flush()\nif len(sys.argv) < 3:\n    os.execv(sys.executable, [sys.executable, *sys.argv, 'again'])\nprint(sys.argv)\n", args=("a",), says="['prog.py', 'a', 'again']", keeps="work"),
    _processes("execs_itself_with_environment", "work(); flush()\nif 'AGAIN' not in os.environ:\n    os.execve(sys.executable, [sys.executable, __file__], {**os.environ, 'AGAIN': '1'})\nprint('again')\n", says="again", keeps="work"),
    _processes("execs_itself_ten_times", "n = int(sys.argv[1]); work()\nif n: os.execv(sys.executable, [sys.executable, __file__, str(n - 1)])\nprint('end')\n", args=("10",), says="end", keeps="work"),
    _processes("execs_in_a_thread", "import threading\nwork(); flush()\nthreading.Thread(target=lambda: os.execv('/bin/echo', ['echo', 'other'])).start()\ntime.sleep(100)\n", says="other", keeps="work", sees_the_end=False),
    _processes("fork_and_exec", "work(); flush()\nif not os.fork():\n    child_work(); os.execv('/bin/echo', ['echo', 'other'])\nos.wait()\n", says="other", keeps=_BOTH),
    _processes("pipes_between", "r, w = os.pipe(); work()\nif not os.fork():\n    os.close(r); os.write(w, b'from child'); os._exit(0)\nos.close(w); print(os.read(r, 100), os.read(r, 100)); os.wait()\n", says="b'from child' b''", keeps="work"),
    _processes("child_holds_a_lock_file", "import fcntl\nwork()\nf = open('lock', 'w'); fcntl.flock(f, fcntl.LOCK_EX)\nif not os.fork():\n    g = open('lock', 'w')\n    try: fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB)\n    except BlockingIOError: os._exit(8)\n    os._exit(0)\nprint(os.wait()[1] >> 8)\n", says="8", keeps="work"),
    _processes("session_and_group", "work()\nif not os.fork():\n    os.setsid(); os._exit(os.getsid(0) != os.getpid())\nprint(os.wait()[1])\n", says="0", keeps="work"),
    _processes("subreaper_sees_only_its_own", "import ctypes\nwork(); flush()\nctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\nif not os.fork():\n    if not os.fork(): time.sleep(0.1); os._exit(2)\n    os._exit(1)\nprint(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for i in range(2)))\ntry: os.wait()\nexcept ChildProcessError: print('none')\n", says="[1, 2]\nnone", keeps="work"),
    Case("setuid", WORK + "import os\nos.setgid(65534); os.setuid(65534)\nprint(os.getuid())\n", says="65534", needs=("root",), state=None),
    Case("unshared_root", WORK + "import os\nos.chroot('.')\nprint(os.listdir('/'))\n", says="prog.py", needs=("root",), state=None),
]
