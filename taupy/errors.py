"""Every error that taupy raises, as one tree.

A message says what was asked, what is there, and what to do next, in one line.
`commands` prints it after `taupy: ` and ends with the error's exit code.
"""

from __future__ import annotations


class TaupyError(Exception):
    """Anything that taupy refuses; the message is for the user."""

    exit_code = 1


class UsageError(TaupyError):
    """The command line asks for something that cannot be."""

    exit_code = 2


class DatabaseError(TaupyError):
    """The database cannot be opened, read or written as asked."""


class NoSuchTrial(TaupyError):
    """No trial answers to the given selection."""


class MissingMetric(TaupyError):
    """A question needs a metric that the trial does not have."""


class FormatError(TaupyError):
    """A file is not what it should be."""
