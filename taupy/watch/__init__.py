"""The process beside the program: when each process ended, seen from outside."""

ANSWER = 3
"""The descriptor on which a process beside the program may answer; must be closed soon."""
