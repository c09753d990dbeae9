"""Set up once what measures PyTorch in full, or notebooks.

    taupy setup torch      the PyTorch of this Python, which is the one that `taupy run` uses
    taupy setup kernel     a Jupyter kernel of this Python that is measured

For PyTorch, builds and tests the libraries through which it reports backward passes by layer, the
shapes and operations of layers, operators, and collectives. They are kept in the state folder of
this user. Needs a C++ compiler and Python's headers. Without them, `taupy run` leaves these details
out and says so; it never starts a compiler itself.

The kernel is listed in Jupyter as "Python (taupy)". When it is shut down or restarted, its trial is
in the `taupy.db` of the notebook's folder.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from taupy.commands import bar
from taupy.commands.messages import say
from taupy.errors import TaupyError, UsageError
from taupy.instrument import runfolder, torch_library
from taupy.instrument.torch_library import KINDS, Kind, Torch, Unusable
from taupy.state.folder import Folder
from taupy.state.saving import save_named


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("torch", "kernel"), help="the framework, or `kernel`")


def run(args: argparse.Namespace) -> int:
    return _kernel() if args.what == "kernel" else _torch()


def _kernel() -> int:
    """Write a kernel's specification where Jupyter finds those of this Python."""
    if find_spec("ipykernel") is None:
        raise UsageError(
            f"setup: ipykernel is not installed for {sys.executable}, the Python in which taupy is "
            "installed and runs programs: install both in one environment"
        )
    words = [sys.executable, "-m", "taupy", "run", "-m", "ipykernel_launcher"]
    specification = {
        "argv": [*words, "-f", "{connection_file}"],
        "display_name": "Python (taupy)",
        "language": "python",
        "metadata": {"debugger": False},
    }
    file = Path(sys.prefix, "share", "jupyter", "kernels", "taupy", "kernel.json")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        save_named(file, json.dumps(specification, indent=1) + "\n")
    except OSError as problem:
        raise TaupyError(
            f"cannot write {file} ({problem}); install taupy in a virtual environment of yours"
        ) from None
    print(
        f'{file}: choose the kernel "Python (taupy)"; `jupyter kernelspec remove taupy` undoes it'
    )
    return 0


def _torch() -> int:
    torch = torch_library.installed(sys.path)
    if torch is None:
        raise UsageError(
            f"setup: PyTorch is not installed for {sys.executable}, the Python in which taupy is "
            "installed and runs programs: install both in one environment"
        )
    try:
        failed, refused = runfolder.in_state_folder(partial(_set_up, torch))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "the libraries named above are kept, and `taupy setup torch` makes the rest"
        ) from None
    except OSError as problem:
        raise TaupyError(
            f"cannot keep the libraries ({problem}); set TAUPY_STATE_DIR to a writable folder"
        ) from None
    say(*refused)
    return 1 if failed else 0


def _set_up(torch: Torch, state: Folder) -> bool:
    """Build what is missing, and test what is there; returns whether something is not usable."""
    print(f"PyTorch {torch.version} in {torch.folder}; libraries in {state}", flush=True)
    print("each is built and tested, which can take minutes", flush=True)
    failed = False
    for kind in KINDS:
        try:
            with bar.shown(f"{kind.what}: building and testing"):
                built = _made(kind, torch, state)
            print(f"  {kind.what}: {built}", flush=True)
        except Unusable as problem:
            failed = True
            say(f"{kind.what}: not available: {problem}")
    return failed


def _made(kind: Kind, torch: Torch, state: Folder) -> str:
    """Build a library unless there is one that passes its test; returns what was done."""
    file = torch_library.file_of(kind, torch, state)
    if file.exists():
        try:
            torch_library.check(kind, torch, file)
        except Unusable:
            file.unlink()
        else:
            return f"{file.name} was there, and passes its test"
    return f"{torch_library.build(kind, torch, state).name} built and tested"
