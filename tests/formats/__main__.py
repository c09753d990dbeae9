"""Print a format's count of a file."""

import importlib
import sys

module = importlib.import_module(f"tests.formats.{sys.argv[1]}")
for name, value in sorted(module.count(sys.argv[2]).items()):
    print(f"{name:20} {value}")
