"""Mask what looks like a secret in command lines and metadata, before it is stored.

`secret_words.py` and `secret_names.py` have the rules. A masked value becomes `MASKED-` and a
salted digest: equal values stay equal, so that trials still group, and nobody without the salt can
try values. The salt lies in the user's state folder. Most command lines have nothing to mask, which
is found out without regular expressions, whose compilation would delay the program.
"""

from __future__ import annotations

import os

from taupy.model.token_forms import FORMS, FORMS_WITHIN
from taupy.state.folder import Folder, open_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from taupy.model.profile import Profile
    from taupy.model.secret_words import Rules

SALT = "salt"
"""The file in the state folder."""

MARK = "MASKED-"
_SALT_BYTES, _DIGITS = 32, 8

_HINTS = (
    "secret", "token", "key", "pass", "@", "auth", "private", "signature", "sig=", "curl", "wget",
    "pwd", "psw", "mysql", "maria", "redis", "mongo", "ldap", "sqlcmd", "bcp", "7z", "zip", "rar",
    "cqlsh", "mosquitto", "ipmi", "smb", "bearer", "jwt", "cookie", "cred", "otp", "mnemonic",
    "psk", "pat=", "pat ", "pat\0", "_pat", "login", "-user", "-basic", "lftp", "http\0",
    "http ", "https\0", "https ", "xh\0", "xh ",
    "identified",
)  # fmt: skip
"""A text in lower case without any of these, and without the form of a token, has no secret that
the rules find."""


class Masking:
    """Masks secrets in the command lines of a run.

    Args:
        state: the state folder, in which the salt is created if it is missing. If that is
            impossible, equal values have different digests in each process.
        names: further names of options and variables whose values are secrets.
        keeps: whether nothing is masked.
    """

    def __init__(self, state: str, names: Collection[str] = (), *, keeps: bool = False) -> None:
        self.state = state
        self.names = names
        self.keeps = keeps
        self._salt = b""

    def words(self, words: Sequence[str]) -> list[str]:
        """The words of a command with masked values."""
        return list(words) if self._is_clean("\0".join(words)) else self._rules().words(words)

    def line(self, text: str) -> str:
        """A command line for a shell with masked values."""
        return text if self._is_clean(text) else self._rules().line(text)

    def mask(self, profile: Profile) -> None:
        """Mask secrets in the metadata of a profile."""
        profile.metadata = self.facts(profile.metadata)
        for node, facts in profile.node_metadata.items():
            profile.node_metadata[node] = self.facts(facts)

    def source(self, text: str) -> tuple[str, int]:
        """Source text with masked values of the same length, so that lines and columns stay; and
        the number of lines that have any."""
        if self._is_clean(text):
            return text, 0
        if all(self._is_clean(_without_pass(line)) for line in text.split("\n")):
            return text, 0
        from taupy.model.secret_words import Rules, hidden
        from taupy.model.source_statements import pieces, replaced

        rules = Rules(self.names, hidden)
        keyless = rules.without_keys(text)
        letters = list(keyless)
        for piece in pieces(keyless, self._test_for(text)):
            masked = rules.code(piece.line, is_statement=piece.is_statement)
            replaced(text, piece, masked, letters)
        now = "".join(letters)
        changed = zip(text.split("\n"), now.split("\n"), strict=True)
        return now, sum(before != after for before, after in changed)

    def facts(self, metadata: Mapping[str, str]) -> dict[str, str]:
        """Metadata with masked values: secrets by their own name, or within a command line."""
        if self._is_clean("\0".join((*metadata, *metadata.values()))):
            return dict(metadata)
        rules = self._rules()
        return {name: rules.value(name, text) for name, text in metadata.items()}

    def _is_clean(self, text: str) -> bool:
        return self.keeps or self._test_for(text)(text)

    def _test_for(self, text: str) -> Callable[[str], bool]:
        """Whether a part of this text certainly has no secret."""
        lower = text.lower()
        named = [name.lstrip("-+~").lower().replace("-", "_") for name in self.names]
        hints = [hint for hint in _HINTS if hint in lower]
        names = [name for name in named if name in lower.replace("-", "_")]
        starts = [start for start, _ in FORMS if start in text]
        parts = [part for part, _ in FORMS_WITHIN if part in text]

        def is_clean(part: str) -> bool:
            lower = part.lower()
            return not (
                any(hint in lower for hint in hints)
                or any(name in lower.replace("-", "_") for name in names)
                or any(within in part for within in parts)
                or any(_begins_word(part, start) for start in starts)
            )

        return is_clean

    def _rules(self) -> Rules:
        from taupy.model.secret_words import Rules

        return Rules(self.names, self.masked)

    def masked(self, value: str) -> str:
        """What this value is replaced by."""
        import hashlib

        if value.startswith(MARK):
            return value
        if not self._salt:
            self._salt = _salt_in(self.state)
        data = value.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(data, key=self._salt[:64], digest_size=_DIGITS // 2)
        return f"{MARK}{digest.hexdigest()}"


UNMASKED = Masking("", keeps=True)


def _without_pass(line: str) -> str:
    """A line of a program without the statement `pass`, which most programs have."""
    line = line.strip()
    return "" if line == "pass" else line.removesuffix(": pass")


def _begins_word(text: str, start: str) -> bool:
    """Whether a word of a text begins with this."""
    at = text.find(start)
    while at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_"):
        at = text.find(start, at + 1)
    return at >= 0


def _salt_in(state: str) -> bytes:
    try:
        os.makedirs(state, 0o700, exist_ok=True)
        with open_own(state) as folder:
            return _kept_salt(folder) or os.urandom(_SALT_BYTES)
    except OSError:
        return os.urandom(_SALT_BYTES)


def _kept_salt(folder: Folder) -> bytes:
    file = folder / SALT
    if not file.exists():
        file.write_bytes(os.urandom(_SALT_BYTES))
    return file.read_record()
