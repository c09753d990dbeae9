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


_STRONG = frozenset({"secret", "password", "passwd", "passphrase", "pgpassword"})
_JOINED = frozenset({"apikey", "apitoken", "accesskey", "accesstoken", "authtoken", "secretkey"})
_WEAK = frozenset({"token", "key"})
_SHORT = frozenset({"pass", "pwd"})
"""As strong at the end of a name, after an owner: `DB_PASS`, not `--first-pass`."""

_STILL = _set("value base64 b64 hex secret password access key token")
"""Words after `secret`, `key` or `token` with which the value is still the secret itself."""

_NO_VALUE = _set(
    "arn class env field file files folder dir id ids length manager name names path paths policy "
    "prompt ref store uri url version"
)
"""Words after `secret` or `password` with which the value only says where it is."""

_OWNERS_OF_TOKENS = _set("bot client hook id login refresh registry session shared storage user")
_OWNERS = _set(
    "access account admin anthropic api app auth aws azure bearer cloud comet csrf database "
    "databricks db deploy encryption gcp gh git github gitlab google hf hub huggingface identity "
    "jwt ldap license mail master mlflow mongo mysql neptune ngc oauth openai personal pg postgres "
    "private proxy redis root s3 sas security service signing slack smtp ssh subscription swanlab "
    "telegram wandb webhook write"
)
"""Words before `key` or `token` that make it a secret whatever the value looks like."""

_OF_DATA = _set(
    "additional answer assistant attention attn audio batch begin beginning best bos cache caption "
    "category cell chat checkpoint chosen class cls code column completion cond condition config "
    "content context conversation cross data dataset decoder dict dictionary draft embedding end "
    "eos eot eval evaluation experiment extra feature first foreign forced generator gate group "
    "hash header hidden history image img index initializer input instance instruction json label "
    "language last layer lookup loss map mask message messages metadata metric model modifier "
    "module monitor new next no object observation output pad padding param parameter partition "
    "per placeholder positive prefix preference primary prng prompt public qk query question "
    "random ref reference rejected replace response resume reward rng role row sample score self "
    "sep separator sequence shard single sort source special split start state stop style suffix "
    "sys system target task teacher test text think tie tool tools train trigger unk unknown val "
    "validation value video visual vision watch weight with word"
)
"""Words before `key` or `token` that name a part of data, a model or a random generator."""

_SWITCHES = _set("allow disable enable has keep no require save skip use with without")
_CONSTANTS = _set("true false none null yes no on off auto default")

_NUMBER = (
    r"[+-]?(?:0[xX][0-9a-fA-F]++|(?:\d[\d_]*+(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)[kKmMgGtTbB%]?"
)
_NUMBERS = re.compile(rf"[\[(]?\s*{_NUMBER}(?:\s*[,:;x/]\s*{_NUMBER})*\s*[\])]?")
_REFERENCE = re.compile(r"\$.*|\{.*\}|env:.*|@.*|%\w+%")
_PATH = re.compile(
    r"(?:~|\.{1,2})?/[\w./ -]*|.*\.(?:pem|key|json|ya?ml|txt|pub|crt|toml|cfg|env|py|csv|tsv|"
    r"parquet|np[yz]|pth?|ckpt|safetensors|bin|h5|pkl|png|jpe?g|wav|mp[34]|tar|gz|zip|db|log)"
)
_RANDOM = re.compile(r"(?=\w*[a-z])(?=\w*[A-Z])(?=\w*\d)\w{20,}")
_SPECIAL = re.compile(r"<.*>|\[[A-Z]+\d*\]|\|.*\|")
_PLAIN = re.compile(r"[A-Za-z]+(?:[ _./:-][A-Za-z]+)*")
_OF_A_KEY = re.compile(r"[a-z]+(?:[_./-][a-z]+)*|[A-Za-z]+[_-]?\d{1,5}")
"""What a key without an owner may be called: `right_hand`, `rank0`."""

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+(?:64)?|\d+")

_ASSIGNED = re.compile(r"([-+~]*[A-Za-z_][\w.@/-]*)=(.+)", re.DOTALL)
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")
_WORD = re.compile(
    r"""(?:[^\s"';|&()<>]++|"(?:[^"\\]|\\.){0,2999}+"|'[^']{0,2999}+')++|["']""", re.DOTALL
)
_QUOTED = re.compile(r"""([^"']*?=)?(["'])(.*)\2""", re.DOTALL)
_IN_URL = re.compile(r"(?<=://)([^\s/@:]*):([^\s/@]+)@")
_TOKEN_IN_URL = re.compile(r"(?<=://)(?=[^\s/@:]*\d)([\w-]{20,})@")
_BEFORE_HOST = re.compile(
    r"(?<![\w/:.])([A-Za-z][\w.-]*):([^\s/@:]+)@(?!sha\d|(?:fp|bf|u?int|float)\d)(?=[\w.-]+)"
)
_PAIR = re.compile(r"""((?:^|(?<=[?&;,\s"'{(]))\+{0,2}[A-Za-z_][\w.-]*=)([^\s&#;,'"]+)""")
_IN_JSON = re.compile(
    r"""(\\?["'])([A-Za-z_][\w.-]*)(\\?["']\s*:\s*)(\\?["'])((?:(?!\\?["']).)+)(\\?["'])"""
)
_IN_YAML = re.compile(r"""((?<!\$)[{,]\s*)([A-Za-z_][\w.-]*)(:\s*)([^\s,{}"']+)(?=\s*[,}])""")
_IN_CODE = re.compile(r"""\b([A-Za-z_]\w*)(\s*=\s*["'])([^\s"']+)(?=["'])""")
_IN_CALL = re.compile(r"""(["'])([\w.-]+)(\1\s*(?:\]\s*=|,)\s*["'])([^\s"']+)(?=["'])""")
_OPTION_IN_CODE = re.compile(r"""(?<![\w-])(--[A-Za-z][\w.-]*)([ =]\s*)([^\s"'`;|&()=]+)""")
_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*KEY-----|\Z)", re.DOTALL
)
_HEADER = re.compile(
    r"\b((?:proxy-)?authorization\s*:\s*(?:[A-Za-z]+\s+)?|[\w-]*-(?:token|key)\s*:\s*)([^\s'\"]+)",
    re.IGNORECASE,
)
_FORMS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*|"
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|"
    r"github_pat_\w{16,}|glpat-[\w-]{16,}|nvapi-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}|"
    r"dckr_pat_[\w-]{16,}|pypi-[\w-]{16,}|"
    r"(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,4096}+\.[\w-]{8,4096}+\.[\w-]*)",
    re.DOTALL,
)
_SIGNATURES = frozenset({"sig", "signature"})
_SHELL = re.compile(r"(?:ba|da|z|k|mk|a|fi)?sh")
_PROGRAM = re.compile(
    r"python[\d.]*t?|(?:ba|da|z|k|mk|a|fi)?sh|sshpass|redis-cli|mysql\w*|curl|wget|https?"
)
_CLIENTS = frozenset({"curl", "wget", "http", "https"})
_USERS = re.compile(r"(-u|--user|--proxy-user|--auth)(=?)(.*)", re.DOTALL)
_SHORT_OPTIONS = {"sshpass": "-p", "redis-cli": "-a", "mysql": "-p", "mysqldump": "-p"}
"""Programs with a short option for the password; MySQL's take it in the same word only."""


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
        masked, before = [], ""
        program = os.path.basename(words[0]) if words else ""
        for word in words:
            masked.append(self._word(word, before, program))
            before = word if _OPTION.fullmatch(word) else ""
            if _PROGRAM.fullmatch(name := os.path.basename(word)):
                program = name
        return masked

    def line(self, text: str) -> str:
        """A command line for a shell with masked values."""
        text = self._text(text)
        pieces, at, before, program = [], 0, "", ""
        for match in _WORD.finditer(text):
            between, word, at = text[at : match.start()], match[0], match.end()
            if not between.isspace():  # another command
                before = program = ""
            if quoted := _QUOTED.fullmatch(word):
                word = self._quoted(quoted, before, program)
            else:
                word = self._word(word, before, program, is_one=True)
            pieces += [between, word]
            before = word if _OPTION.fullmatch(word) else ""
            if _PROGRAM.fullmatch(name := os.path.basename(word)):
                program = name
        return "".join([*pieces, text[at:]])

    def _quoted(self, match: re.Match[str], before: str, program: str) -> str:
        """A word in quotes, or an assignment whose value is."""
        name, quote = match[1] or "", match[2]
        escaped = "\\" + quote
        inner = match[3].replace(escaped, quote)
        if name and self.is_secret(name[:-1], inner):
            return f"{name}{quote}{self.masked(inner)}{quote}"
        masked = self._word(inner, "" if name else before, program)
        if masked == inner:
            return match[0]
        return f"{name}{quote}{masked.replace(quote, escaped)}{quote}"

    def code(self, line: str) -> str:
        """A line of a program's source."""
        line = _IN_CALL.sub(self._in_call, line)
        line = _OPTION_IN_CODE.sub(self._in_words, line)
        return self._text(line, is_code=True)

    def _in_words(self, match: re.Match[str]) -> str:
        """A command line within a text of a program."""
        option, between, value = match.groups()
        return f"{option}{between}{self._if_secret(option, value)}"

    def _if_secret(self, name: str, value: str) -> str:
        return self.masked(value) if self.is_secret(name, value) else value

    def without_keys(self, text: str) -> str:
        """A text whose private keys, which have several lines, are masked."""
        return _KEY.sub(lambda match: self.masked(match[0]), text)

    def value(self, name: str, text: str) -> str:
        """The value of metadata of this name."""
        return self.masked(text) if self.is_secret(name, text) else self.line(text)

    def _word(self, word: str, before: str, program: str, *, is_one: bool = False) -> str:
        """A word, after an option or "", in the command of a program.

        Args:
            is_one: it is not itself a line, though part of it may be quoted.
        """
        if before and not word.startswith("-") and self.is_secret(before, word):
            return self.masked(word)
        if (masked := self._of_program(word, before, program)) is not None:
            return masked
        match = _ASSIGNED.fullmatch(word)
        if match and not _is_line(match) and self.is_secret(match[1], match[2]):
            return f"{match[1]}={self.masked(match[2])}"
        is_code = before == "-c" and not _SHELL.fullmatch(program)
        if not (is_code or is_one) and any(map(str.isspace, word)):
            return self.line(word)
        return self._text(word, is_code)

    def _of_program(self, word: str, before: str, program: str) -> str | None:
        """A password in an option that only this program has; None if it is none."""
        if program in _CLIENTS:
            joined = _USERS.fullmatch(word if word.startswith("-") else f"{before}={word}")
            user, colon, password = joined[3].partition(":") if joined else ("", "", "")
            if joined and colon and password:
                option = f"{joined[1]}{joined[2]}" if word.startswith("-") else ""
                return f"{option}{user}:{self.masked(password)}"
        option = _SHORT_OPTIONS.get(program, "")
        if option and before == option and not program.startswith("mysql"):
            return self.masked(word)
        if option and word.startswith(option) and word != option:
            return f"{option}{self.masked(word[len(option) :])}"
        return None

    def _text(self, text: str, is_code: bool = False) -> str:
        """A text with masked passwords in URLs, in JSON and the like, and of known forms."""
        if "://" in text:
            text = _IN_URL.sub(lambda match: f"{match[1]}:{self.masked(match[2])}@", text)
            text = _TOKEN_IN_URL.sub(lambda match: f"{self.masked(match[1])}@", text)
        if "@" in text:
            text = _BEFORE_HOST.sub(self._before_host, text)
        if "=" in text:
            text = _IN_CODE.sub(self._in_code, text) if is_code else _PAIR.sub(self._pair, text)
        if ":" in text:
            text = _IN_JSON.sub(self._in_json, text)
            if not is_code:
                text = _IN_YAML.sub(self._in_yaml, text)
            text = _HEADER.sub(lambda match: f"{match[1]}{self.masked(match[2])}", text)
        return _FORMS.sub(lambda match: self.masked(match[0]), text)

    def _before_host(self, match: re.Match[str]) -> str:
        if _is_harmless(match[2]):
            return match[0]
        return f"{match[1]}:{self.masked(match[2])}@"

    def _pair(self, match: re.Match[str]) -> str:
        name = match[1][:-1]
        is_signature = _SIGNATURES & {part.lower() for part in _PARTS.findall(name)}
        is_in_url = "?" in match.string
        is_secret = self.is_secret(name, match[2].rstrip(")]}"))
        if not ((is_signature and is_in_url) or is_secret):
            return match[0]
        return f"{match[1]}{self.masked(match[2])}"

    def _in_code(self, match: re.Match[str]) -> str:
        if not self.is_secret(match[1], match[3], is_in_data=True):
            return match[0]
        return f"{match[1]}{match[2]}{self.masked(match[3])}"

    def _in_call(self, match: re.Match[str]) -> str:
        if not self.is_secret(match[2], match[4], is_in_data=True):
            return match[0]
        return f"{match[1]}{match[2]}{match[3]}{self.masked(match[4])}"

    def _in_json(self, match: re.Match[str]) -> str:
        if not self.is_secret(match[2], match[5], is_in_data=True):
            return match[0]
        return f"{match[1]}{match[2]}{match[3]}{match[4]}{self.masked(match[5])}{match[6]}"

    def _in_yaml(self, match: re.Match[str]) -> str:
        if not self.is_secret(match[2], match[4], is_in_data=True):
            return match[0]
        return f"{match[1]}{match[2]}{match[3]}{self.masked(match[4])}"

    def is_secret(self, name: str, value: str, *, is_in_data: bool = False) -> bool:
        """Whether the value of an option or variable of this name is a secret.

        Args:
            is_in_data: it is an entry of a mapping, where `key` and `token` alone say little.
        """
        if _is_harmless(value):
            return False
        *above, last = re.split(r"[./]", name)
        if self.names and not self.names.isdisjoint((_plain_name(name), _plain_name(last))):
            return True
        return _names_secret(last, "".join(above[-1:]), value, is_in_data)


def hidden(value: str) -> str:
    """What a secret in source is replaced by: as many lines and columns without it."""
    word = iter("MASKED")
    return "".join("\n" if letter == "\n" else next(word, "*") for letter in value)


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
        or any(form.fullmatch(value) for form in (_NUMBERS, _REFERENCE))
        or (_PATH.fullmatch(value) is not None and _RANDOM.search(value) is None)
    )


def _names_secret(name: str, above: str, value: str, is_in_data: bool) -> bool:
    """Whether a name, such as `api_key` in `wandb.api_key`, names a secret."""
    parts = [part.lower() for part in _PARTS.findall(name)]
    if _JOINED.intersection(parts):
        return True
    for at, part in enumerate(parts):
        before, after = parts[:at], parts[at + 1 :]
        is_whole = all(word in _STILL or word.isdigit() for word in after)
        if part in _STRONG and not _NO_VALUE.intersection(after):
            return is_whole or not _PLAIN.fullmatch(value)
        if part in _SHORT and before and not after:
            return before[-1] in _OWNERS | _OWNERS_OF_TOKENS
        if part in _WEAK and is_whole:
            before = before or [part.lower() for part in _PARTS.findall(above)]
            return _is_secret_token(part, before, value, is_in_data)
    return False


def _is_secret_token(part: str, before: Sequence[str], value: str, is_in_data: bool) -> bool:
    """Whether the value of `...-key` or `...-token` is a secret, given the words before."""
    if _SPECIAL.fullmatch(value):
        return False
    plain = _OF_A_KEY if part == "key" else _PLAIN
    if not before:
        return (
            not plain.fullmatch(value)
            if is_in_data
            else part == "token" or not (_OF_A_KEY.fullmatch(value) and value[0].islower())
        )
    if before[0] in _SWITCHES and _PLAIN.fullmatch(value):
        return False
    if before[-1] in _OWNERS or (part == "token" and before[-1] in _OWNERS_OF_TOKENS):
        return True
    return before[-1] not in _OF_DATA and not plain.fullmatch(value)
