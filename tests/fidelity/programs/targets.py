"""Every way to name a program: script, module, code, stdin, folder, archive, odd names."""

from ..cases import WORK, Case

_WHO = """
import sys
print(sys.argv, sys.orig_argv[1:], sys.path[:2])
print(__name__, globals().get("__file__"), __package__, __spec__, __doc__, __builtins__)
print(sorted(globals()), type(__loader__))
"""
WHO = "'''The text.'''\n" + WORK + _WHO

_NOTHING = {"keeps": (), "trials": None, "state": None}

CASES = [
    Case("script", WHO),
    Case("arguments", WHO, args=("a", "", "b c", "*", "--db", "y.db", "-m", "--", "-h", "--quiet", "é")),
    Case("argument_like_help", WHO, args=("--help",)),
    Case("argument_not_utf8", WHO.replace("sys.argv", "ascii(sys.argv)").replace("sys.orig_argv[1:]", "0"), args=(b"\xff\xfe",)),
    Case("script_in_a_folder", WHO, target="some/where/prog.py"),
    Case("script_by_dots", WHO, target="./some/../prog.py", files={"prog.py": WHO, "some/x": ""}),
    Case("script_by_parent", WHO, target="../work/prog.py"),
    Case("no_suffix", WHO, target="prog"),
    Case("odd_suffix", WHO, target="prog.txt"),
    Case("name_with_spaces", WHO, target="my prog (1).py"),
    Case("name_with_quotes", WHO, target="it's \"so\" $HOME `x`.py"),
    Case("name_with_newline", WHO, target="a\nb.py"),
    Case("unicode_name", WHO, target="prögrämm_日本.py"),
    Case(
        "name_not_utf8",
        WORK + "import sys\nprint(ascii(sys.argv), ascii(__file__), ascii(sys.path[0]))\n",
        target=b"pr\xffg.py",
    ),
    Case("name_of_a_number", WHO, target="1"),
    Case("name_like_an_option", WHO, target="./-c"),
    Case("symlink", WHO, target="link.py", files={"real/prog.py": WHO, "real/near.py": "", "link.py": "->real/prog.py"}),
    Case("symlinked_folder", WHO, target="link/prog.py", files={"real/prog.py": WHO, "link": "->real"}),
    Case("bom", files={"prog.py": b"\xef\xbb\xbf" + WHO.encode()}),
    Case("latin_1", files={"prog.py": b"# coding: latin-1\n" + WORK.encode() + b"print(ascii('\xe9'))\n"}, says="\\xe9"),
    Case("latin_1_undeclared", files={"prog.py": b"print('\xe9')\n"}, status=1, says="SyntaxError", **_NOTHING),
    Case("shebang", "#!/usr/bin/env nopython\n" + WHO),
    Case("carriage_returns", files={"prog.py": WHO.replace("\n", "\r\n").encode()}),
    Case("form_feeds", "\f\n" + WORK + "\f\nprint('x')\n"),
    Case("no_last_newline", files={"prog.py": WORK.encode() + b"print('end')"}),
    Case("empty", files={"prog.py": b""}, keeps=()),
    Case("only_comments", "# nothing\n", keeps=()),
    Case("future_import", "from __future__ import annotations\n" + WORK + "def f(x: nowhere): pass\nprint(f.__annotations__)\n"),
    Case("compiled", target="prog.pyc", files={"source.py": WHO}, before="$PYTHON -c \"import py_compile; py_compile.compile('source.py', 'prog.pyc', doraise=True)\"; rm source.py"),
    Case("bad_compiled", target="prog.pyc", files={"prog.pyc": b"\0" * 40}, status=1, says="RuntimeError", **_NOTHING),
    Case("through_dev_stdin", target="/dev/stdin", stdin=WHO.encode()),
    Case("folder", target="app", files={"app/__main__.py": WHO, "app/near.py": "print('near')\n"}),
    Case("folder_importing", target="app", files={"app/__main__.py": WORK + "import near\n", "app/near.py": "print('near', __file__)\n"}),
    Case("folder_with_slash", target="app/", files={"app/__main__.py": WHO}),
    Case("this_folder", target=".", files={"__main__.py": WHO}, args=("a",)),
    Case("folder_failing", target="app", files={"app/__main__.py": "def work():\n    1/0\nwork()\n"}, status=1, says="ZeroDivisionError"),
    Case("zipapp", target="app.pyz", files={"app/__main__.py": WHO, "app/near.py": ""}, before="$PYTHON -m zipapp app -o app.pyz", args=("x",)),
    Case("zipapp_with_shebang", target="app", files={"src/__main__.py": WORK + "import near\n1/0\n", "src/near.py": "print(__file__)\n"}, before="$PYTHON -m zipapp -p /usr/bin/nopython -o app src", status=1, says="ZeroDivisionError"),
    Case("zipapp_with_data", target="app.pyz", files={"src/__main__.py": WORK + "import pkgutil\nprint(pkgutil.get_data('data', 'text.txt'))\n", "src/data/__init__.py": "", "src/data/text.txt": "hello"}, before="$PYTHON -m zipapp -c -o app.pyz src", says="hello"),
    Case("zip_without_main", target="app.zip", files={"x.py": ""}, before="$PYTHON -m zipfile -c app.zip x.py", status=1, says="can't find '__main__'", **_NOTHING),
    Case("broken_zip", target="app.pyz", files={"app.pyz": b"PK\3\4" + b"\xff" * 50}, status=1, **_NOTHING),
    Case("module", WHO, kind="module", target="part", files={"part.py": WHO}, args=("a", "-m", "--db")),
    Case("module_in_package", kind="module", target="pack.part", files={"pack/__init__.py": "print('init', __name__)\n", "pack/part.py": WHO}),
    Case("package", kind="module", target="pack", files={"pack/__init__.py": "print('init', __name__)\n", "pack/__main__.py": WHO + "from . import near\n", "pack/near.py": "print('near')\n"}),
    Case("namespace_package", kind="module", target="space.part", files={"space/part.py": WHO}),
    Case("package_without_main", kind="module", target="pack", files={"pack/__init__.py": ""}, status=1, says="cannot be directly executed", **_NOTHING),
    Case("package_failing_in_init", kind="module", target="pack.part", files={"pack/__init__.py": "def work():\n    1/0\nwork()\n", "pack/part.py": ""}, status=1, says="ZeroDivisionError"),
    Case("module_missing_an_import", kind="module", target="part", files={"part.py": WORK + "import nowhere_else\n"}, status=1, says="No module named 'nowhere_else'"),
    Case("module_importing_itself", kind="module", target="pack.part", files={"pack/__init__.py": "from . import part\n", "pack/part.py": WHO}, says="RuntimeWarning"),
    Case("module_in_a_zip", kind="module", target="part", files={"part.py": WHO}, before="$PYTHON -m zipfile -c lib.zip part.py; rm part.py", environment={"PYTHONPATH": "$WORK/lib.zip"}),
    Case("module_with_suffix", kind="module", target="part.py", files={"part.py": WORK}, status=1, says="Try using 'part' instead of 'part.py'", keeps=(), trials=None, state=None),
    Case("code", WHO, kind="code", args=("a", "-c", "--", "--db")),
    Case("code_one_line", "print(1 + 1)", kind="code", says="2", keeps=()),
    Case("code_empty", "", kind="code", keeps=()),
    Case("code_unicode", "def work(): print('é日', ascii('é'))\nwork()", kind="code"),
    Case("code_reads_stdin", WORK + "import sys\nprint(sys.stdin.read())\n", kind="code", stdin=b"given\n", says="given"),
    Case("stdin", WHO, kind="stdin"),
    Case("stdin_with_arguments", WHO, kind="stdin", args=("a", "--db", "b")),
    Case("stdin_empty", "", kind="stdin", keeps=()),
    Case("script_reads_stdin", WORK + "for line in open(0): print(line.upper(), end='')\n", stdin=b"one\ntwo\n", says="TWO"),
    Case("script_uses_input", WORK + "print(input('name? '), input())\n", stdin=b"me\nyou\n", says="name? me you"),
    Case("input_at_the_end", WORK + "input()\n", status=1, says="EOFError"),
    Case("a_tool_json", kind="module", target="json.tool", stdin=b'{"a": [1, 2]}', keeps="main", says='"a"'),
    Case("a_tool_pdb", "def work(n):\n    return n + 1\nprint(work(1))\n", kind="module", target="pdb", args=("prog.py",), files={"prog.py": "def work(n):\n    return n + 1\nprint(work(1))\n"}, stdin=b"break work\ncontinue\nwhere\np n\nnext\ncontinue\nquit\n", says="-> return n + 1", keeps=()),
    Case("a_tool_this", kind="module", target="this", says="Beautiful is better", keeps=()),
    Case("a_tool_calendar", kind="module", target="calendar", args=("2000", "1"), says="January 2000", keeps=()),
    Case("a_tool_ast", kind="module", target="ast", stdin=b"x = 1\n", says="Assign", keeps="main"),
    Case(
        "runpy_inside",
        """
        import runpy, sys
        def work():
            print(runpy.run_path("other.py", run_name="__main__")["x"])
            print(runpy.run_module("part")["x"], sys.argv)
        work()
        print(sys.modules["__main__"].__file__)
        """,
        files={"other.py": "import sys\nx = (__name__, __file__, sys.argv)\n", "part.py": "x = __name__\n"},
    ),
    Case("exec_of_a_file", WORK + "exec(compile(open('other.py').read(), 'other.py', 'exec'))\n", files={"other.py": "def inner():\n    print(__name__)\ninner()\n"}, keeps=("work", "inner")),
    Case("edited_while_running", WORK + "open(__file__, 'w').write('')\n1/0\n", status=1, says="ZeroDivisionError"),
    Case("deleted_while_running", WORK + "import os\nos.unlink(__file__)\nprint(os.path.exists(__file__))\n", says="False"),
]
