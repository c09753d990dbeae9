"""multiprocessing and concurrent.futures by fork, spawn and forkserver."""

from ..cases import Case

_GUARD = 'if __name__ == "__main__":\n'


def _pool(name: str, body: str, **more) -> Case:
    text = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return Case(
        name,
        "import multiprocessing as mp, os, sys, time, warnings\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "class Thing:\n    def __init__(self, n): self.n = n\n"
        "def work(n):\n    return n * n\n"
        "def thing(n): return Thing(n)\n"
        "def fail(n): raise ValueError(n)\n"
        "def leave(n): sys.exit(n)\n"
        "def put(queue, n): queue.put(work(n))\n"
        "def nap(): time.sleep(60)\n" + _GUARD + text,
        **{"state": None, **more},
    )


CASES = [
    *(
        _pool(
            f"pool_{method}",
            f"context = mp.get_context('{method}')\nwith context.Pool(2) as pool:\n    print(pool.map(work, range(5)), pool.apply(thing, (3,)).n)\n    pool.close(); pool.join()",
            says="[0, 1, 4, 9, 16] 3",
        )
        for method in ("fork", "spawn", "forkserver")
    ),
    *(
        _pool(
            f"process_{method}",
            f"context = mp.get_context('{method}')\nqueue = context.Queue()\np = context.Process(target=put, args=(queue, 7)); p.start()\nprint(queue.get()); p.join(); print(p.exitcode)\nq = context.Process(target=leave, args=(5,)); q.start(); q.join(); print(q.exitcode)",
            says="49\n0\n5",
        )
        for method in ("fork", "spawn", "forkserver")
    ),
    _pool("pool_left_by_with", "with mp.get_context('fork').Pool(2) as pool:\n    print(pool.map(work, range(5)))\nprint(work(2))", says="[0, 1, 4, 9, 16]"),
    _pool("pool_never_closed", "pool = mp.get_context('fork').Pool(2)\nprint(pool.map(work, range(5)), work(2))", says="[0, 1, 4, 9, 16]", compares_stderr=False),
    _pool("pool_errors", "with mp.get_context('fork').Pool(2) as pool:\n    try: pool.map(fail, [1])\n    except ValueError as error: print('caught', error)\nwork(1)", says="caught 1"),
    _pool("pool_tasks_limited", "with mp.get_context('fork').Pool(2, maxtasksperchild=1) as pool:\n    print(pool.map(work, range(6), chunksize=1))\n    pool.close(); pool.join()", says="25"),
    _pool("terminate_and_kill", "context = mp.get_context('fork')\nfor how in ('terminate', 'kill'):\n    p = context.Process(target=nap); p.start(); time.sleep(0.1); getattr(p, how)(); p.join(); print(p.exitcode)\nwork(1)", says="-15\n-9"),
    _pool("daemon_process_at_exit", "p = mp.get_context('fork').Process(target=nap, daemon=True); p.start(); print(work(2))", says="4"),
    _pool("process_not_joined", "p = mp.get_context('fork').Process(target=work, args=(1,)); p.start(); print('main', flush=True)", says="main"),
    _pool("process_fails", "p = mp.get_context('fork').Process(target=fail, args=(1,), name='P'); p.start(); p.join(); print(p.exitcode); work(1)", says="ValueError: 1"),
    _pool("process_fails_spawned", "p = mp.get_context('spawn').Process(target=fail, args=(1,), name='P'); p.start(); p.join(); print(p.exitcode); work(1)", says="ValueError: 1"),
    _pool("children_listed", "print(mp.active_children(), mp.current_process().name, mp.parent_process()); work(1)", says="[] MainProcess None", state="complete"),
    _pool("spawned_main_is_this_file", "with mp.get_context('spawn').Pool(1) as pool:\n    one = pool.apply(thing, (4,)); print(type(one) is Thing, one.n)\n    print(pool.apply(os.getcwd) == os.getcwd())\nwork(1)", says="True 4"),
    _pool("manager", "with mp.get_context('fork').Manager() as manager:\n    d = manager.dict(); d['a'] = work(3); l = manager.list([1]); l.append(2)\n    print(dict(d), list(l))", says="{'a': 9} [1, 2]"),
    _pool("shared_memory", "from multiprocessing import shared_memory\ns = shared_memory.SharedMemory(create=True, size=100)\ns.buf[:3] = b'abc'\nt = shared_memory.SharedMemory(s.name); print(bytes(t.buf[:3]))\nt.close(); s.close(); s.unlink(); work(1)", says="abc"),
    _pool("barrier", "context = mp.get_context('fork')\nb = context.Barrier(3)\nps = [context.Process(target=b.wait) for i in range(2)]\nfor p in ps: p.start()\nb.wait()\nfor p in ps: p.join()\nprint([p.exitcode for p in ps]); work(1)", says="[0, 0]"),
    *(
        _pool(
            f"executor_{method}",
            f"with ProcessPoolExecutor(2, mp_context=mp.get_context('{method}')) as pool:\n    print(list(pool.map(work, range(5))), pool.submit(thing, 6).result().n)\n    print(repr(pool.submit(fail, 2).exception()))",
            says="[0, 1, 4, 9, 16] 6\nValueError(2)",
        )
        for method in ("fork", "spawn")
    ),
    _pool("executor_broken", "pool = ProcessPoolExecutor(1, mp_context=mp.get_context('fork'))\ntry: pool.submit(os._exit, 3).result()\nexcept Exception as error: print(type(error).__name__)\nwork(1)", says="BrokenProcessPool"),
    _pool("executor_not_shut_down", "pool = ProcessPoolExecutor(1, mp_context=mp.get_context('fork'))\nprint(pool.submit(work, 3).result())", says="9"),
    _pool("pool_from_a_module", "with mp.get_context('spawn').Pool(1) as pool: print(pool.map(work, [3]))", kind="module", target="prog", files={}, says="[9]"),
    Case(
        "pool_from_a_module_in_a_package",
        kind="module",
        target="pack.part",
        files={
            "pack/__init__.py": "",
            "pack/part.py": "import multiprocessing as mp\ndef work(n): return n + 1, __name__, __package__\nif __name__ == '__main__':\n    with mp.get_context('spawn').Pool(1) as pool: print(pool.map(work, [3]))\n",
        },
        says="[(4, '__mp_main__', 'pack')]",
        state=None,
    ),
    Case(
        "spawn_without_guard",
        """
        import multiprocessing as mp
        def work(): return 1
        p = mp.get_context("spawn").Process(target=work); p.start(); p.join()
        print(p.exitcode)
        """,
        says="bootstrapping phase",
        state=None,
        keeps=(),
    ),
]
