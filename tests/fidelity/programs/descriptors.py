"""Standard streams in every state, descriptors closed and reused, limits, lost folders."""

import resource

from ..cases import WORK, Case

CASES = [
    Case("stdout_closed", WORK + "import sys\nprint('lost', sys.stdout)\nsys.stderr.write(f'{sys.stdout}\\n')\n", stdout="closed", says="None"),
    Case("stdout_closed_first_file_is_1", WORK + "f = open('first', 'w')\nf.write(f'{f.fileno()}')\n", stdout="closed"),
    Case("stderr_closed", WORK + "import sys\nprint(sys.stderr)\n1/0\n", stderr="closed", status=1, says="None"),
    Case("stdin_closed", WORK + "import sys\nprint(sys.stdin)\n", stdin="closed", says="None"),
    Case("all_closed", WORK + "open('told', 'w').write('x')\n", stdin="closed", stdout="closed", stderr="closed"),
    Case("all_closed_fails", WORK + "open('told', 'w').write('x')\n1/0\n", stdin="closed", stdout="closed", stderr="closed", status=1),
    Case("stdout_full", WORK + "print('x', flush=True)\n", stdout="full", status=120, says="No space left"),
    Case("stderr_full", WORK + "import sys\nsys.stderr.write('x' * 10)\nprint('on')\n", stderr="full", status=120),
    Case("stderr_broken", WORK + "1/0\n", stderr="broken", status=120),
    Case("binary_output", WORK + "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 100)\n", says=bytes(range(256))),
    Case("large_output", WORK + "for n in range(20000): print('line', n)\n", says="line 19999"),
    Case("written_below_python", WORK + "import os\nprint('buffered')\nos.write(1, b'direct\\n')\n", says="direct\nbuffered"),
    Case("stdout_redirected_below", WORK + "import os\nprint('one', flush=True)\nfd = os.open('out', os.O_CREAT | os.O_WRONLY)\nos.dup2(fd, 1)\nprint('two')\n", says="one"),
    Case("stderr_redirected_below", WORK + "import os\nos.dup2(os.open('err', os.O_CREAT | os.O_WRONLY), 2)\n1/0\n", status=1),
    Case("descriptors_1_and_2_closed", WORK + "import os\nprint('one', flush=True)\nos.close(1); os.close(2)\n", status=0, says="one"),
    Case("next_descriptor_is_free", WORK + "import os\nprint([os.open('/dev/null', 0) for n in range(20)])\n", says="[3, 4, 5"),
    Case(
        "close_all_and_reuse",
        """
        import os
        def work(): return 1
        for i in range(10): work()
        os.closerange(3, 256)
        files = [open(f"file{n}", "w+b") for n in range(60)]
        for i in range(1000): work()
        for n, f in enumerate(files): f.write(b"mine %d" % n)
        for f in files: f.flush()
        print(files[0].fileno())
        for f in files: f.close()
        print({open(f"file{n}", "rb").read() == b"mine %d" % n for n in range(60)})
        """,
        says="{True}",
        keeps={"work": 1010},
    ),
    Case("close_all_left_open_at_exit", "import os\ndef work(): return 1\nos.closerange(3, 256)\nfiles = [open(f'file{n}', 'w') for n in range(40)]\nfor f in files: f.write('kept')\nfor i in range(100): work()\n", keeps={"work": 100}),
    Case("close_all_then_exit_hard", "import os\ndef work(): return 1\nos.closerange(0, 256)\nfds = [os.open(f'file{n}', os.O_CREAT | os.O_RDWR) for n in range(40)]\nfor fd in fds: os.write(fd, b'kept')\nwork()\nos._exit(3)\n", status=3, state=None),
    Case("close_all_and_new_routines", "import os\ndef work(): return 1\nos.closerange(3, 256)\nscope = {}\nfor n in range(3000):\n    exec(f'def made_{n}(): return {n}\\nmade_{n}()', scope)\nwork()\n", keeps=("work", "made_2999")),
    Case("every_descriptor_taken", "import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\nkept = []\ntry:\n    while True: kept.append(os.open('/dev/null', 0))\nexcept OSError as error: print(error, len(kept))\ndef work(): return 1\nwork()\nscope = {}\nfor n in range(2000):\n    exec(f'def made_{n}(): return {n}\\nmade_{n}()', scope)\n", says="Too many open files", keeps=("work", "made_1999")),
    Case("limit_on_descriptors_tiny", WORK + "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"),
    Case("limit_on_file_size", "import resource\ndef work(): return 1\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\ntry:\n    with open('big', 'wb') as f: f.write(b'x' * 5000)\nexcept OSError as error: print(error)\nscope = {}\nfor n in range(2000):\n    exec(f'def made_{n}(): return {n}\\nmade_{n}()', scope)\nwork()\n", says="File too large", keeps="work"),
    Case("limit_on_file_size_zero", WORK + "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nprint('on')\n"),
    Case("limit_on_file_size_kills", WORK + "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nresource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\nopen('big', 'wb', 0).write(b'x' * 5000)\nopen('big', 'ab', 0).write(b'x')\n", status=-25, state="incomplete"),
    Case("limit_on_memory", "import resource\ndef work(): return 1\nresource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))\ntry: x = bytearray(2 << 30)\nexcept MemoryError: print('no memory')\nfor i in range(100): work()\nscope = {}\nfor n in range(2000):\n    exec(f'def made_{n}(): return {n}\\nmade_{n}()', scope)\n", says="no memory", keeps={"work": 100, "made_1999": 1}),
    Case("limit_on_memory_exhausted", "import resource\nwith open('/proc/self/statm') as f: used = int(f.read().split()[0]) * 4096\nresource.setrlimit(resource.RLIMIT_AS, (used + (20 << 20), used + (20 << 20)))\ndef work():\n    kept = []\n    try:\n        while True: kept.append(bytearray(1 << 16))\n    except MemoryError: del kept\n    print('full')\nwork()\n", says="full"),
    Case("limit_on_cpu_kills", WORK + "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\ndef spin():\n    while True: pass\nspin()\n", status=-9, state="incomplete", lateness_s=8),
    Case("limit_on_processes", WORK + "import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (0, 0))\nprint('on')\n"),
    Case("limit_on_stack", WORK + "import resource\nprint(resource.getrlimit(resource.RLIMIT_STACK))\n"),
    Case("limit_on_locked_memory", WORK + "import resource\nresource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))\n"),
    *(
        Case(
            f"limit_of_{word}_from_outside",
            "def work(): return 1\nfor i in range(100): work()\nscope = {}\nfor n in range(2000):\n    exec(f'def made_{n}(): return {n}\\nmade_{n}()', scope)\nprint('end')\n",
            limits={limit: value},
            says="end",
            keeps={"work": 100, "made_1999": 1},
        )
        for word, limit, value in (
            ("memory", resource.RLIMIT_AS, 300 << 20),
            ("file_size", resource.RLIMIT_FSIZE, 4 << 20),
            ("descriptors", resource.RLIMIT_NOFILE, 12),
            ("locked_memory", resource.RLIMIT_MEMLOCK, 0),
            ("stack", resource.RLIMIT_STACK, 1 << 20),
            ("data", resource.RLIMIT_DATA, 100 << 20),
        )
    ),
    Case("locks_all_its_memory", "import ctypes\nlibc = ctypes.CDLL(None)\ndef work(): return 1\nprint(libc.mlockall(1), libc.mlockall(3))\nfor i in range(100): work()\nscope = {}\nfor n in range(2000):\n    exec(f'def made_{n}(): return {n}\\nmade_{n}()', scope)\n", keeps={"work": 100, "made_1999": 1}, needs=("root",), says="0 0"),
    Case("folder_removed", WORK + "import os, shutil\nshutil.rmtree(os.getcwd())\ntry: os.getcwd()\nexcept FileNotFoundError as error: print(error)\n", says="No such file"),
    Case("folder_removed_and_fails", WORK + "import os, shutil\nshutil.rmtree(os.getcwd())\n1/0\n", status=1, says="ZeroDivisionError"),
    Case("folder_changed", WORK + "import os\nos.mkdir('deep'); os.chdir('deep')\nopen('here', 'w').close()\nprint(__file__)\n"),
    Case("folder_is_root", WORK + "import os\nos.chdir('/')\n"),
    Case("home_removed", WORK + "import os, shutil\nshutil.rmtree(os.environ['HOME'])\nprint('gone')\n", says="gone"),
    Case("tmpdir_removed", WORK + "import os, shutil\nshutil.rmtree(os.environ['TMPDIR'])\nprint('gone')\n", says="gone"),
    Case("inherits_a_descriptor_on_exec", WORK + "import os\nr, w = os.pipe(); os.set_inheritable(w, True)\nif not os.fork():\n    os.execv('/bin/sh', ['sh', '-c', f'echo x >&{w}; ls /proc/self/fd | wc -l >&{w}'])\nos.wait(); print(os.read(r, 100))\n", says="x", state=None),
    Case("select_and_poll_numbers", WORK + "import socket, selectors\na, b = socket.socketpair()\nprint(a.fileno(), b.fileno())\ns = selectors.DefaultSelector(); s.register(a, 1); b.send(b'x'); print(len(s.select(1)), s.fileno())\n", says="3 4\n1 5"),
    Case("temporary_files", WORK + "import tempfile, os\nwith tempfile.NamedTemporaryFile() as f: print(os.path.dirname(f.name) == os.environ['TMPDIR'])\nprint(os.listdir(os.environ['TMPDIR']))\n", says="True\n[]"),
    Case("memory_maps", WORK + "import mmap\nopen('map', 'wb').write(b'x' * 8192)\nf = open('map', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[:3] = b'abc'; m.close()\nprint(open('map', 'rb').read(5))\n", says="abcxx"),
    Case("stdin_left_unread", WORK, stdin=b"not read\n" * 1000),
    Case("stdin_read_by_a_child", WORK + "import subprocess\nprint(subprocess.run(['cat'], stdin=0, capture_output=True).stdout)\n", stdin=b"for cat\n", says="for cat"),
    Case("stdin_shared_with_the_source", WORK + "import sys\nprint(sys.stdin.readline())\n", kind="stdin", stdin=b"", says="\n"),
    Case("encoding_error_in_output", WORK + "print('a\\udc80')\n", environment={"PYTHONIOENCODING": "utf-8:strict"}, status=1, says="UnicodeEncodeError"),
]
