"""Every error that taupy raises, as one tree.

A message states in one line what was requested, what is available, and what to do next.
`commands` prints it after `taupy: ` and ends with the error's exit code.
"""

from __future__ import annotations

from taupy.escaping import visible

NOTICES: list[str] = []
"""What was done beside what was asked, a line each; the command prints them when it has ended."""


def note(line: str) -> None:
    """Add a notice, unless it is there."""
    if line not in NOTICES:
        NOTICES.append(line)


class TaupyError(Exception):
    """Anything that taupy refuses; the message is for the user.

    Args:
        message: may quote names and files, whatever those hold: it is escaped here.
    """

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(visible(message))


class UsageError(TaupyError):
    """The command line asks for something impossible."""

    exit_code = 2


class DatabaseError(TaupyError):
    """The database cannot be opened, read or written as requested."""


class NoSuchTrial(TaupyError):
    """No trial answers to the given selection."""


class MissingMetric(TaupyError):
    """A question needs a metric that the trial does not have."""


class FormatError(TaupyError):
    """A file is not what it should be."""
