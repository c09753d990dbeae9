"""Mask what looks like a secret in command lines and metadata, before it is stored.

`secret_words.py` has the rules. A masked value becomes `MASKED-` and a salted digest: equal values
stay equal, so that trials still group, and nobody without the salt can try values. The salt lies in
the user's state folder. Most command lines have nothing to mask, which is found out without regular
expressions, whose compilation would delay the program.
"""

from __future__ import annotations

import os

from taupy.state.folder import Folder, open_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from taupy.model.profile import Profile
    from taupy.model.secret_words import Rules

SALT = "salt"
"""The file in the state folder."""

MARK = "MASKED-"
_SALT_BYTES, _DIGITS = 32, 8

_HINTS = (
    "secret", "token", "key", "pass", "@", "authorization", "private", "signature", "sig=", "hf_",
    "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "nvapi-", "xox", "_pat_", "pypi-",
    "akia", "asia", "aiza", "eyj", "curl", "wget", "pwd", "mysql", "redis",
)  # fmt: skip
"""A text in lower case without any of these has no secret that the rules find."""


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
        from taupy.model.secret_words import Rules, hidden

        rules = Rules(self.names, hidden)
        lines = rules.without_keys(text).split("\n")
        masked = [line if self._is_clean(line) else rules.code(line) for line in lines]
        changed = zip(text.split("\n"), masked, strict=True)
        return "\n".join(masked), sum(before != after for before, after in changed)

    def facts(self, metadata: Mapping[str, str]) -> dict[str, str]:
        """Metadata with masked values: secrets by their own name, or within a command line."""
        if self._is_clean("\0".join((*metadata, *metadata.values()))):
            return dict(metadata)
        rules = self._rules()
        return {name: rules.value(name, text) for name, text in metadata.items()}

    def _is_clean(self, text: str) -> bool:
        if self.keeps:
            return True
        lower = text.lower().replace("-", "_") if self.names else text.lower()
        named = [name.lstrip("-+~").lower().replace("-", "_") for name in self.names]
        return not any(hint in lower for hint in (*_HINTS, *named))

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
