"""The interpreter's own options, given before `-m taupy run`, reach the program."""

from ..cases import WORK, Case

_SHOW = (
    WORK
    + """
import sys, warnings
print(sys.flags)
print(sys._xoptions, sys.warnoptions, sys.orig_argv[1:], sys.argv)
print(sys.dont_write_bytecode, sys.pycache_prefix, __debug__, work.__doc__)
print(sys.path[0], warnings.filters)
print(sys.stdout.line_buffering, sys.stdout.write_through, sys.stdout.encoding)
"""
)


def _option(name: str, *options: str, **more) -> Case:
    return Case(name, _SHOW, options=options, **more)


# Before a command can do anything, its own interpreter has cached what it imports.
_CACHE = rb"work/cache(/(?!.*/part\.)|$)"

CASES = [
    _option("none"),
    _option("optimised", "-O"),
    _option("optimised_twice", "-OO"),
    _option("developer_mode", "-X", "dev"),
    _option("joined_x", "-Xdev"),
    _option("warnings_always", "-W", "always"),
    _option("warnings_detailed", "-W", "error::DeprecationWarning", "-Wignore:x"),
    _option("isolated", "-I"),
    _option("unbuffered", "-u"),
    _option("no_bytecode", "-B"),
    _option("ignores_environment", "-E", environment={"PYTHONOPTIMIZE": "1"}),
    _option("safe_path", "-P"),
    _option("bytes_warning", "-bb"),
    _option("quiet", "-q"),
    _option("joined", "-OBu"),
    _option("utf8", "-X", "utf8"),
    _option("not_utf8", "-X", "utf8=0", environment={"LANG": "C", "LC_ALL": "C"}),
    _option("integer_digits", "-X", "int_max_str_digits=1000"),
    _option("faulthandler", "-X", "faulthandler"),
    _option("tracemalloc", "-X", "tracemalloc=3"),
    _option("no_debug_ranges", "-X", "no_debug_ranges"),
    _option("encoding_warning", "-X", "warn_default_encoding"),
    _option("unknown_x", "-X", "mine=1", "-X", "other"),
    _option("hash_based", "--check-hash-based-pycs", "always"),
    _option("frozen_modules_off", "-X", "frozen_modules=off"),
    Case(
        "assertions_are_gone",
        "def work():\n    assert 0\n    print('here', __debug__)\nwork()\n",
        options=("-O",),
        says="here False",
    ),
    Case(
        "warning_is_an_error",
        "import warnings\ndef work():\n    warnings.warn('bad')\nwork()\n",
        options=("-W", "error"),
        status=1,
        says="UserWarning: bad",
    ),
    Case(
        "developer_mode_tells_of_open_files",
        "def work():\n    open(__file__)\nwork()\n",
        options=("-X", "dev"),
        says="ResourceWarning",
    ),
    Case(
        "skips_the_first_line",
        "this is no python\n" + WORK + "print('ran')\n",
        options=("-x",),
        says="ran",
    ),
    Case("isolated_module_is_not_found", kind="module", target="part", files={"part.py": WORK}, options=("-I",), status=1, says="No module named part", keeps=(), trials=None, state=None),
    Case("bytecode_goes_elsewhere", WORK + "import part\n", files={"part.py": "x = 1\n"}, options=("-X", "pycache_prefix=cache"), unlike=_CACHE),
    Case("bytecode_is_written", WORK + "import part\nprint(part.__spec__.cached)\n", files={"part.py": "x = 1\n"}),
    Case("bytecode_is_not_written", WORK + "import part\n", files={"part.py": "x = 1\n"}, options=("-B",)),
    Case("inspect_after_the_end", WORK, options=("-i",), stdin=b"print(work())\nimport sys\nprint(sys.flags.inspect)\n", says="45"),
    Case("inspect_after_an_error", "def work():\n    1/0\nwork()\n", options=("-i",), stdin=b"import sys\nprint(sys.last_value)\n", says="division by zero"),
]
