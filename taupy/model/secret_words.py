"""Find what looks like a secret in a command line: the rules of `masking.py`.

A value is a secret if the name before it says so (`--password X`, `api_key=X`, `HF_TOKEN=X`), if it
is the password in a URL, or if it has the form of a known kind of token. Numbers never are, nor are
references to variables, paths, and words that a tokenizer or a data set uses as tokens and keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_STRONG = frozenset({"secret", "password", "passwd", "passphrase"})
_JOINED = frozenset({"apikey", "apitoken", "accesskey", "accesstoken", "authtoken", "secretkey"})
_WEAK = frozenset({"token", "key"})
_STILL = frozenset({"value", "base64", "b64", "hex", "secret", "password"})
"""Words after `key` or `token` with which the value is still the secret itself."""

_NO_VALUE = _set(
    "arn class env field file files folder dir id ids length manager name names path paths policy "
    "prompt ref store uri url version"
)
"""Words after `secret` or `password` with which the value only says where it is."""

_OWNERS = _set(
    "access account admin anthropic api app auth aws azure bearer bot client cloud comet csrf "
    "databricks deploy encryption gcp gh git github gitlab google hf hub huggingface hook id "
    "identity jwt license login master mlflow mongo neptune ngc oauth openai personal private "
    "redis refresh registry s3 sas security service session shared signing slack ssh storage "
    "subscription swanlab telegram user wandb webhook write"
)
"""Words before `key` or `token` that make it a secret whatever the value looks like."""

_OF_DATA = _set(
    "additional answer assistant attention attn audio batch begin beginning best bos cache caption "
    "category cell chat checkpoint chosen class cls code column completion cond condition config "
    "content context conversation cross data dataset decoder dict dictionary draft embedding end "
    "eos eot eval evaluation extra feature first foreign forced generator gate group header hidden "
    "history image img index initializer input instance instruction json label language last layer "
    "lookup loss map mask message messages metadata metric model modifier module monitor new next "
    "no observation output pad padding param parameter partition per placeholder positive prefix "
    "preference primary prng prompt public qk query question random ref reference rejected replace "
    "response reward rng role row sample score self sep separator sequence shard single sort "
    "source special split start state stop style suffix sys system target task teacher test text "
    "think tie tool tools train trigger unk unknown val validation value video visual vision watch "
    "weight with word"
)
"""Words before `key` or `token` that name a part of data, a model or a random generator."""

_SWITCHES = _set("allow disable enable has keep no require save skip use with without")
_CONSTANTS = _set("true false none null yes no on off auto default")

_NUMBER = r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[kKmMgGtTbB%]?"
_NUMBERS = re.compile(rf"[\[(]?\s*{_NUMBER}(?:\s*[,:;x/]\s*{_NUMBER})*\s*[\])]?")
_REFERENCE = re.compile(r"\$.*|\{.*\}|env:.*|@.*|%\w+%")
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w./ -]*|.*\.(?:pem|key|json|ya?ml|txt|pub|crt|toml|cfg|env)")
_SPECIAL = re.compile(r"<.*>|\[[A-Z]+\d*\]|\|.*\|")
_PLAIN = re.compile(r"[A-Za-z]+(?:[ _./:-][A-Za-z]+)*")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+(?:64)?|\d+")

_ASSIGNED = re.compile(r"([-+~]*[A-Za-z_][\w.@/-]*)=(.+)", re.DOTALL)
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")
_IN_LINE = re.compile(
    r"""(?<![\w-])(--?[A-Za-z][\w.-]*(?:=|\s+)|[A-Z_][A-Z0-9_]*=)(["']?)([^\s"'`;|&()-][^\s"'`;|&()]*)"""
)
_IN_URL = re.compile(r"(?<=://)([^\s/@:]*):([^\s/@]+)@")
_BEFORE_HOST = re.compile(r"(?<![\w/:.])([A-Za-z][\w.-]*):([^\s/@:]+)@(?!sha\d)(?=[\w.-]+)")
_IN_QUERY = re.compile(r"([?&;])([A-Za-z][\w.-]*)=([^\s&#;'\"]+)")
_IN_JSON = re.compile(
    r"""(\\?["'])([A-Za-z_][\w.-]*)(\\?["']\s*:\s*)(\\?["'])((?:(?!\\?["']).)+)(\\?["'])"""
)
_HEADER = re.compile(
    r"\b((?:proxy-)?authorization\s*:\s*(?:[A-Za-z]+\s+)?|x-[\w-]*(?:token|key)\s*:\s*)([^\s'\"]+)",
    re.IGNORECASE,
)
_FORMS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*|"
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|"
    r"github_pat_\w{16,}|glpat-[\w-]{16,}|nvapi-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}|"
    r"(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)",
    re.DOTALL,
)
_SIGNATURES = frozenset({"sig", "signature"})
_SHELL = re.compile(r"(?:ba|da|z|k|mk|a|fi)?sh")
_CLIENTS = frozenset({"curl", "wget", "http", "https"})
_USERS = frozenset({"-u", "--user", "--proxy-user"})


class Rules:
    """The rules, with a user's own names.

    Args:
        names: further names of options and variables whose values are secrets.
        masked: what a secret is replaced by; applied to what it returns, it changes nothing.
    """

    def __init__(self, names: Collection[str], masked: Callable[[str], str]) -> None:
        self.names = frozenset(map(_plain_name, names))
        self.masked = masked

    def words(self, words: Sequence[str]) -> list[str]:
        """The words of a command with masked values."""
        masked, name = [], ""
        command = os.path.basename(words[0]) if words else ""
        for word in words:
            before, name = name, word if _OPTION.fullmatch(word) else ""
            masked.append(self._word(word, before, command))
        return masked

    def line(self, text: str) -> str:
        """A command line for a shell with masked values."""

        def replaced(match: re.Match[str]) -> str:
            name = match[1].rstrip().removesuffix("=")
            is_secret = self.is_secret(name, match[3])
            value = self.masked(match[3]) if is_secret else match[3]
            return f"{match[1]}{match[2]}{value}"

        return self._text(_IN_LINE.sub(replaced, text))

    def _word(self, word: str, before: str, command: str) -> str:
        """One word, after an option or ""."""
        if before and not word.startswith("-") and self.is_secret(before, word):
            return self.masked(word)
        if before in _USERS and command in _CLIENTS and ":" in word:
            user, _, password = word.partition(":")
            return f"{user}:{self.masked(password)}"
        match = _ASSIGNED.fullmatch(word)
        if match and not _is_line(match) and self.is_secret(match[1], match[2]):
            return f"{match[1]}={self.masked(match[2])}"
        is_program = before == "-c" and not _SHELL.fullmatch(command)
        if not is_program and any(map(str.isspace, word)):
            return self.line(word)
        return self._text(word)

    def _text(self, text: str) -> str:
        """A text with masked passwords in URLs, in JSON, and of known forms."""
        if "://" in text:
            text = _IN_URL.sub(lambda match: f"{match[1]}:{self.masked(match[2])}@", text)
        if "@" in text:
            text = _BEFORE_HOST.sub(self._before_host, text)
        if "=" in text and ("?" in text or "&" in text):
            text = _IN_QUERY.sub(self._in_query, text)
        if ":" in text:
            text = _IN_JSON.sub(self._in_json, text)
            text = _HEADER.sub(lambda match: f"{match[1]}{self.masked(match[2])}", text)
        return _FORMS.sub(lambda match: self.masked(match[0]), text)

    def _before_host(self, match: re.Match[str]) -> str:
        if _is_harmless(match[2]):
            return match[0]
        return f"{match[1]}:{self.masked(match[2])}@"

    def _in_query(self, match: re.Match[str]) -> str:
        is_signature = _SIGNATURES & {part.lower() for part in _PARTS.findall(match[2])}
        if not (is_signature or self.is_secret(match[2], match[3])):
            return match[0]
        return f"{match[1]}{match[2]}={self.masked(match[3])}"

    def _in_json(self, match: re.Match[str]) -> str:
        if not self.is_secret(f"json.{match[2]}", match[5]):
            return match[0]
        return f"{match[1]}{match[2]}{match[3]}{match[4]}{self.masked(match[5])}{match[6]}"

    def is_secret(self, name: str, value: str) -> bool:
        """Whether the value of an option or variable of this name is a secret."""
        if _is_harmless(value):
            return False
        if _plain_name(name) in self.names:
            return True
        *above, last = re.split(r"[./]", name)
        return _names_secret(last, "".join(above[-1:]), value)


def _is_line(match: re.Match[str]) -> bool:
    """Whether it is a shell's line that begins with a variable."""
    return match[1][0] != "-" and any(map(str.isspace, match[2]))


def _plain_name(name: str) -> str:
    return name.lstrip("-+~").replace("-", "_").lower()


def _is_harmless(value: str) -> bool:
    """Whether a value is a number, a constant, or only says where the secret is."""
    return (
        not any(map(str.isalnum, value))
        or value.lower() in _CONSTANTS
        or any(form.fullmatch(value) for form in (_NUMBERS, _REFERENCE, _PATH))
    )


def _names_secret(name: str, above: str, value: str) -> bool:
    """Whether a name, such as `api_key` in `wandb.api_key`, names a secret."""
    parts = [part.lower() for part in _PARTS.findall(name)]
    if _JOINED.intersection(parts):
        return True
    for at, part in enumerate(parts):
        after = parts[at + 1 :]
        if part in _STRONG and not _NO_VALUE.intersection(after):
            return True
        if part in _WEAK and all(word in _STILL or word.isdigit() for word in after):
            owner = [part.lower() for part in _PARTS.findall(above)]
            return _is_secret_token(parts[:at] or owner, value)
    return False


def _is_secret_token(before: Sequence[str], value: str) -> bool:
    """Whether the value of `...-key` or `...-token` is a secret, given the words before."""
    if _SPECIAL.fullmatch(value):
        return False
    if not before:
        return True
    if before[0] in _SWITCHES and _PLAIN.fullmatch(value):
        return False
    if before[-1] in _OWNERS:
        return True
    return before[-1] not in _OF_DATA and not _PLAIN.fullmatch(value)
