"""Which routines are recorded: glob patterns, compiled once, matched once per routine.

A pattern is `name:GLOB`, `file:GLOB`, `module:GLOB`, or a bare GLOB that may match any of
the routine's qualified name, its full name `name [{file}{line}]`, its file and its file's
base name. `*` matches anything, also `/` and `.`; `?` one character; `[abc]`, `[a-z]` and
`[!abc]` one of a set; a backslash makes the next character literal.

The plain-Python engine imports this into the measured process: built-in modules only, so
neither `fnmatch` nor `re`. The compiled engine follows the same rules with fnmatch(3).
"""

KINDS = ("name", "file", "module")


def problem(pattern: str) -> str | None:
    """An error message about a pattern, for the user; None if the pattern is valid."""
    kind, colon, glob = pattern.partition(":")
    if not pattern:
        return "a pattern is empty: write a glob such as 'Net.*' or file:*/numpy/*"
    if colon and kind in KINDS and not glob:
        return f"the pattern {pattern!r} has no glob: write {pattern}GLOB"
    if colon and kind not in KINDS and kind.isalpha() and kind.islower():
        return (
            f"the pattern {pattern!r} begins with an unknown kind (known: name:, file:, "
            f"module:); for a name with a colon write name:{pattern}"
        )
    return None


class Selection:
    """The patterns of one run.

    Args:
        include: record only what matches one of these; if empty, everything.
        exclude: do not record what matches one of these.
    """

    def __init__(self, include: list[str], exclude: list[str]) -> None:
        self.include = [_split(pattern) for pattern in include]
        self.exclude = [_split(pattern) for pattern in exclude]

    def selected(self, name: str, path: str | None, line: int | None, module: str = "") -> bool:
        """Whether this routine is recorded.

        Args:
            name: qualified name.
            path: its file; None for a C function.
            line: its first line.
            module: `__name__` of the module it runs in; for a C function its owner's.
        """
        if self.include and not _any(self.include, name, path, line, module):
            return False
        return not _any(self.exclude, name, path, line, module)


def _split(pattern: str) -> tuple[str, str]:
    kind, colon, glob = pattern.partition(":")
    return (kind, glob) if colon and kind in KINDS else ("", pattern)


def _any(
    patterns: list[tuple[str, str]], name: str, path: str | None, line: int | None, module: str
) -> bool:
    file = path or ""
    base = file.rpartition("/")[2]
    for kind, glob in patterns:
        if kind == "name":
            texts: tuple[str, ...] = (name,)
        elif kind == "module":
            texts = (module,)
        elif kind == "file":
            texts = (file, base)
        else:
            texts = (name, file, base, f"{name} [{{{file}}}{{{line or 0}}}]")
        if any(matches(glob, text) for text in texts):
            return True
    return False


def matches(glob: str, text: str) -> bool:
    """Whether the glob matches the whole text. Takes at most len(glob) * len(text) steps."""
    at = place = 0
    star, star_place = -1, 0  # the last `*`, and where the part after it was last tried
    while place < len(text):
        if at < len(glob) and glob[at] == "*":
            star, star_place = at, place
            at += 1
            continue
        after = _after_element(glob, at, text[place]) if at < len(glob) else -1
        if after >= 0:
            at, place = after, place + 1
        elif star >= 0:
            star_place += 1
            at, place = star + 1, star_place
        else:
            return False
    return not glob[at:].strip("*")


def _after_element(glob: str, at: int, character: str) -> int:
    """The position after the element at `at` if it matches the character, otherwise -1."""
    element = glob[at]
    if element == "?":
        return at + 1
    if element == "[":
        end = glob.find("]", at + 3 if glob[at + 1 : at + 2] in ("!", "^") else at + 2)
        if end > 0:
            inside = glob[at + 1 : end]
            negated = inside[0] in "!^"
            return end + 1 if _in_set(inside[negated:], character) != negated else -1
    if element == "\\" and at + 1 < len(glob):
        return at + 2 if glob[at + 1] == character else -1
    return at + 1 if element == character else -1


def _in_set(members: str, character: str) -> bool:
    at = 0
    while at < len(members):
        if at + 2 < len(members) and members[at + 1] == "-":
            if members[at] <= character <= members[at + 2]:
                return True
            at += 3
        else:
            if members[at] == character:
                return True
            at += 1
    return False
