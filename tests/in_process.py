"""Run the command `taupy` in the tests' process, which is faster than starting another."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from taupy.commands import main


def taupy(
    *arguments: object, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command's output and exit code, as `subprocess.run` would return them."""
    words = [str(argument) for argument in arguments]
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or "."),
        mock.patch.dict(os.environ, env or os.environ, clear=True),
        # A program that a command starts gets this path, which may be relative to another folder.
        mock.patch.object(sys, "orig_argv", [sys.executable, *sys.orig_argv[1:]]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main(words)
        except SystemExit as exit:
            code = exit.code if isinstance(exit.code, int) else 0 if exit.code is None else 1
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def set_up_torch(environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """`taupy setup torch`, in a process of its own: it looks for PyTorch on that one's path."""
    return subprocess.run(
        [sys.executable, "-m", "taupy", "setup", "torch"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
