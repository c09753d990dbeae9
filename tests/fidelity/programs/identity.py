"""`__main__` is the program: pickling, dataclasses, doctest, unittest, argparse."""

from ..cases import WORK, Case

CASES = [
    Case(
        "main_is_this_file",
        """
        import sys
        def work():
            return sys.modules["__main__"]
        print(work().__dict__ is globals(), work.__module__, work().__file__, work())
        import __main__
        print(__main__ is work(), __main__.work is work)
        """,
        says="True __main__ ",
    ),
    Case(
        "pickling_of_classes",
        """
        import pickle, pickletools, copy
        from dataclasses import dataclass
        from enum import Enum
        from typing import NamedTuple
        @dataclass
        class Point:
            x: int
        class Colour(Enum):
            RED = 1
        class Pair(NamedTuple):
            a: int
        class Outer:
            class Inner: pass
        def work():
            data = pickle.dumps([Point(1), Colour.RED, Pair(2), Outer.Inner, work], 0)
            print(data)
            print(pickle.loads(data) [:3], copy.deepcopy(Point(3)))
        work()
        """,
        says="__main__",
    ),
    Case(
        "pickle_read_by_another",
        """
        import pickle, subprocess, sys
        class Thing:
            def __init__(self): self.x = 5
        def work():
            if len(sys.argv) > 1:
                print(pickle.load(open("thing", "rb")).x)
            else:
                pickle.dump(Thing(), open("thing", "wb"))
                sys.stdout.flush()
                subprocess.run([sys.executable, __file__, "again"], check=True)
        work()
        """,
        says="5",
    ),
    Case(
        "shelve",
        """
        import shelve
        class Thing: pass
        def work():
            with shelve.open("shelf") as shelf:
                shelf["a"] = Thing()
            with shelve.open("shelf") as shelf:
                print(type(shelf["a"]) is Thing)
        work()
        import glob, os
        for name in glob.glob("shelf*"): os.unlink(name)
        """,
        says="True",
    ),
    Case(
        "doctest",
        '''
        def work(n):
            """Doubles.

            >>> work(2)
            4
            >>> work(3)
            7
            >>> work("a").nowhere
            Traceback (most recent call last):
            AttributeError: 'str' object has no attribute 'nowhere'
            """
            return n + n
        import doctest, sys
        result = doctest.testmod()
        print(result)
        sys.exit(result.failed)
        ''',
        status=1,
        says="Expected:",
        keeps={"work": 3},
    ),
    Case("doctest_of_a_file", kind="module", target="doctest", args=("-v", "prog.py"), files={"prog.py": 'def work():\n    """\n    >>> work()\n    1\n    """\n    return 1\n'}, says="1 passed", keeps={"work": 1}),
    Case(
        "unittest_main",
        """
        import unittest
        class Tests(unittest.TestCase):
            def test_good(self): self.assertEqual(1, 1)
            def test_bad(self): self.assertEqual(1, 2)
            def test_error(self): 1/0
            @unittest.skip("why")
            def test_skipped(self): pass
            def test_sub(self):
                for i in range(3):
                    with self.subTest(i=i): self.assertNotEqual(i, 1)
        if __name__ == "__main__":
            unittest.main()
        """,
        args=("-v",),
        status=1,
        says="FAILED (failures=2, errors=1, skipped=1)",
        keeps="Tests.test_good",
    ),
    Case(
        "unittest_discovers",
        kind="module",
        target="unittest",
        files={"test_part.py": "import unittest\nclass T(unittest.TestCase):\n    def test_one(self): pass\n"},
        says="Ran 1 test",
        keeps="T.test_one",
    ),
    Case(
        "argparse_program_name",
        """
        import argparse
        def work():
            parser = argparse.ArgumentParser()
            parser.add_argument("--count", type=int)
            parser.parse_args()
        work()
        """,
        args=("--nothing",),
        status=2,
        says="usage: prog.py",
    ),
    Case(
        "argparse_program_name_of_a_module",
        kind="module",
        target="pack.part",
        files={
            "pack/__init__.py": "",
            "pack/part.py": "import argparse\ndef work():\n    argparse.ArgumentParser().parse_args()\nwork()\n",
        },
        args=("-h",),
        says="usage: ",
    ),
    Case(
        "argparse_program_name_of_an_archive",
        target="app.pyz",
        files={"src/__main__.py": "import argparse\ndef work():\n    argparse.ArgumentParser().parse_args()\nwork()\n"},
        before="$PYTHON -m zipapp -o app.pyz src",
        args=("-h",),
        says="usage: ",
    ),
    Case(
        "inspect_finds_the_source",
        """
        import inspect
        def work():
            return 1
        print(inspect.getsource(work), inspect.getsourcefile(work), inspect.getmodule(work))
        work()
        """,
        says="return 1",
    ),
    Case(
        "typing_finds_names",
        """
        from __future__ import annotations
        import typing
        class Node:
            next: Node
        def work(a: Node) -> Node: ...
        print(typing.get_type_hints(Node), typing.get_type_hints(work))
        work(1)
        """,
        says="__main__.Node",
    ),
    Case(
        "relative_import_fails_alike",
        WORK + "from . import nowhere\n",
        status=1,
        says="attempted relative import",
    ),
    Case(
        "warnings_once_a_place",
        """
        import warnings
        def work():
            for i in range(3):
                warnings.warn("same")
        work(); work()
        print(sorted(k for k in globals() if "warning" in k))
        """,
        says="__warningregistry__",
        keeps={"work": 2},
    ),
    Case(
        "reload_and_del_main",
        WORK + "import sys\ndel sys.modules['__main__']\nimport __main__\nprint(__main__)\n",
        status=1,
        says="No module named '__main__'",
    ),
    Case(
        "main_replaced",
        WORK + "import sys, types\nsys.modules['__main__'] = types.ModuleType('__main__')\nprint('on')\n",
        says="on",
    ),
    Case(
        "main_emptied",
        WORK + "out = print\nglobals().clear()\n",
    ),
]
