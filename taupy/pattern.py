"""Regular expressions that are compiled when they are first used.

Importing `re` takes half as long as an interpreter's start, and the prompt waits for it: neither
the launcher nor the storer of a run needs it for a program of a few files.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

    pattern = re.compile
else:

    class pattern:
        """As `re.compile` returns it, later."""

        def __init__(self, text, flags=0):
            self._text, self._flags = text, flags

        def __getattr__(self, name):
            import re

            compiled = re.compile(self._text, self._flags)
            value = self.__dict__[name] = getattr(compiled, name)
            return value
