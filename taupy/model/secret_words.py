"""Find what looks like a secret in command lines, metadata and source: the rules of `masking.py`.

A value is a secret if the name before it says so (`secret_names.py`), if it is the password in a
URL or in an option that has both user and password, or if it has the form of a maker's token
(`token_forms.py`). Here is where names and values stand: in options, in lines for a shell, in JSON,
YAML, headers, connection strings, SQL and program code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

from taupy.model.secret_names import (
    is_file,
    is_number,
    names_secret,
    says_nothing,
    words_of,
)
from taupy.model.token_forms import FORMS, FORMS_WITHIN
from taupy.pattern import pattern

_ASSIGNED = pattern(r"([-+~/]*[A-Za-z_][\w.@/\[\]'\"-]*)=(.+)", re.DOTALL)
_SETTINGS = pattern(r",[A-Za-z_][\w.]*=")
_COLON = pattern(r"(/?[A-Za-z_][\w.-]*:\s*)(\S+)")
_OPTION = pattern(r"--?[A-Za-z][\w.-]*")
_LIKE_AN_OPTION = pattern(r"--.*|-[A-Za-z]?(?:[A-Za-z-]*|\d{0,4}|=.*)", re.DOTALL)
_WORD = pattern(
    r"""(?:[^\s"';|&()<>]++|"(?:[^"\\]|\\.){0,2999}+"|'[^']{0,2999}+')++|["']""", re.DOTALL
)
_QUOTED = pattern(r"""([^"']*?=)?(["'])(.*)\2""", re.DOTALL)
_IN_URL = pattern(
    r"(?<=://)([^\s/:'\"]*):(?!\d{1,5}[/?#])((?:(?!://)[^\s'\"])+)@(?!(?:sha\d+):)(?=[\w.\[$-])"
)
_TOKEN_IN_URL = pattern(r"(?<=://)(?=[^\s/@:]*\d)([\w-]{20,})(?=:?@)")
_BEFORE_HOST = pattern(
    r"(?<![\w/:.])(?!mailto:)([A-Za-z][\w.-]*):([^\s/@:]+)@(?!sha\d|(?:fp|bf|u?int|float)\d)(?=[\w.-]+)"
)
_ORACLE = pattern(r"(?<=jdbc:oracle:thin:)([^\s/@]+)/([^\s@]+)@")
_PAIR = pattern(
    r"""((?:^|(?<=[?&;,#\s"'{(\[]))\+{0,2}[A-Za-z_][\w.-]*=)("[^"]+"|'[^']+'|[^\s&#;,'"]+)"""
)
_CONNECTION = pattern(r"""((?:^|(?<=[;?]))\s*[A-Za-z][\w .]*=)(\{[^}]*\}|"[^"]*"|[^;]*)""")
_OF_CONNECTION = pattern(
    r"(?:^|[;?:])\s*(?:server|data source|host|driver|dsn|database|initial catalog|provider|"
    r"endpoint|accountname|hostname|uid|user id|user|addr|address)\s*=",
    re.IGNORECASE,
)
_IN_JSON = pattern(
    r"""(\\?["'])([A-Za-z_][\w.-]*)(\\?["']\s*:\s*)(\\?["'])((?:(?!\4).)+)(\4)""", re.DOTALL
)
_JSON_NUMBER = pattern(r"""(["'])([A-Za-z_][\w.-]*)(["']\s*:\s*)(\d[\d.]*)(?=\s*[,}])""")
_JSON_LIST = pattern(r"""(["'])([A-Za-z_][\w.-]*)(["']\s*:\s*\[)([^\[\]{}]*)(?=\])""")
_IN_LIST = pattern(r"""(["'])((?:(?!\1).)+)\1""")
_IN_YAML = pattern(
    r"""((?<!\$)[{,]\s*)([A-Za-z_][\w.-]*)(:\s*["']?)([^\s,{}"']+)(?=["']?\s*[,}])"""
)
_NAME = r"(?P<name>[A-Za-z_][\w.]*)"
_OF_TYPE = r"(?:\s*:\s*(?P<type>[\w.]+(?:\[[^\[\]=]*\])?[\w.\[\]| ]*?))?"
_KEY_IN_CODE = r"""(?P<mark>["'])(?P<name>[\w.-]+)(?P=mark)"""
_VALUE = (
    r"""(?:\(\s*)?[rRbBuUfF]{0,2}(?P<quote>\"{3}|'{3}|["'`])"""
    r"""(?P<value>(?:(?!(?P=quote))[^\\\n]|\\.)+)(?=(?P=quote))"""
)
_IN_CODE = tuple(
    pattern(rule + _VALUE)
    for rule in (
        rf"\b{_NAME}{_OF_TYPE}\s*(?:[+|]?=>?|:=)\s*",
        rf"\b{_NAME}{_OF_TYPE}\s*=\s*[\w.]*(?:Secret\w+|bytes|bytearray|str|decode|fromhex|unhexlify|dedent)\(\s*",
        rf"\b{_NAME}{_OF_TYPE}\s*=\s*[\w.]+\(\s*default\s*=\s*",
        rf"\b{_NAME}{_OF_TYPE}\s*=\s*[^=,;\n]{{1,200}}?\b(?:or|else)\s+",
        rf"{_KEY_IN_CODE}\s*(?:\]\s*=|:|=>)\s*",
        rf"""(?:\(\s*|(?=["']-)){_KEY_IN_CODE}\s*,\s*(?![rRbBuUfF]{{0,2}}["']-)""",
        rf"\b(?:set|setattr)\([^(),]+,\s*{_KEY_IN_CODE}\s*,\s*",
        r"""["']--?(?P<name>[A-Za-z][\w-]*)["'][^()]{1,300}?\bdefault\s*=\s*""",
    )
)
_SETTER = pattern(rf"""\b(?:set|with|use)_?{_NAME}\(\s*{_VALUE}(?=["']\s*\))""")
_COMPARED = pattern(rf"\b{_NAME}\s*[!=]=\s*{_VALUE}")
_ITEM = r"""[rRbBuUfF]{0,2}(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')|[\w.]++"""
_SEVERAL_IN_CODE = pattern(
    rf"\b{_NAME}{_OF_TYPE}\s*=\s*[\[({{](?P<values>\s*+(?:(?:{_ITEM})\s*+[,:]?\s*+)++)(?=[\])}}])"
)
_SETTING = pattern(
    r"""(?:(?<=^)|(?<=[\s#]))([A-Za-z_][\w.-]*)(\s?[:=]\s?)(?!MASKED)([^\s()\[\]{}<>"'`,#]{3,})(?=\s*(?:#.*)?\Z)"""
)
_TARGET = r"""[A-Za-z_][\w.]*(?:\[["'][\w.-]*["']\])?"""
_AT_ONCE = pattern(
    rf"(?:\A|(?<=[;\n]))\s*(?P<names>{_TARGET}(?:\s*,\s*{_TARGET})+)\s*=\s*\(?"
    rf"(?P<values>(?:{_ITEM})(?:\s*,\s*(?:{_ITEM}))+)(?=\s*\)?\s*(?:\Z|[;\n]))"
)
_ITEMS = pattern(_ITEM)
_STRING = pattern(r"""(["'])((?:(?!\1)[^\\\n]|\\.){0,2999}+)\1""")
_LOGIN = pattern(
    r"""((?:auth\s*=\s*\(|login\(|auth\()\s*(["'])[^"']*\2\s*,\s*(["']))((?:(?!\3).)+)(?=\3)""",
    re.IGNORECASE,
)
_IN_SQL = pattern(r"\b([A-Za-z_]\w*|identified\s+by)(\s+')([^']+)(?=')", re.IGNORECASE)
_OPTION_IN_CODE = pattern(r"""(?<![\w-])(--[A-Za-z][\w.-]*)([ =]\s*)([^\s"'`;|&()=]+)""")
_PRIVATE_KEY = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^()\[\]{}<>;!#]*?-----END [A-Z ]*KEY-----"
    r"|(?:[\s\"'\\]*n?[A-Za-z0-9+/=]{16,})++)"
)
_KEY = pattern(_PRIVATE_KEY)
_HEADER = pattern(
    r"""(?:(?<![\w-])|(?<=-H))((?:proxy-)?authorization(?:\s*:\s*|=)(?:[A-Za-z]+\s+)?|"""
    r"""(?:set-)?cookie\s*:\s*(?=[\w.-]+=)|"""
    r"""[\w-]*-(?:token|key|secret|password|auth)\s*:\s*|api_?key\s*:\s+)([^'"]+)""",
    re.IGNORECASE,
)
_SCHEME = pattern(r"(bearer|basic|token|digest|apikey|negotiate|key)(\s+|%20)(?=\S)", re.I)
_BEARER = pattern(r"(?<![\w-])(bearer\s+)((?=[^\s'\"]*\d)[^\s'\",]{6,})", re.IGNORECASE)
_FORM = (
    ("-----BEGIN", _PRIVATE_KEY),
    *((start, rf"\b{re.escape(start)}{rest}") for start, rest in FORMS),
    *FORMS_WITHIN,
)
_SIGNATURES = frozenset({"sig", "signature"})
_SHELL = pattern(r"(?:ba|da|z|k|mk|a|fi)?sh")
_INTERPRETER = pattern(r"(?:python|pypy|perl|ruby|node|php|lua|julia|R|Rscript)[\d.]*t?")
_CODE_OPTIONS = pattern(r"-[A-Za-z]*[ceEr]|--eval|--exec")
_USERS = pattern(
    r"(-u|-U|-a|--?user|--?username|--?login|--?userpwd|--?(?:proxy|http|basic|ftp)-(?:user|auth)|"
    r"--?auth|--?basic|--?cred(?:ential)?s?)([= ]?)([^\s:/]+)(:|%(?=\S))(.+)",
    re.DOTALL,
)
_OWNED = frozenset({"docker", "podman", "nerdctl", "chown", "install", "apptainer", "singularity"})
"""Programs whose `--user U:G` names a group."""

_SHORT_OPTIONS = {
    "sshpass": "-p", "redis-cli": "-a", "mysql": "-p", "mysqldump": "-p", "mysqladmin": "-p",
    "mysqlimport": "-p", "mariadb": "-p", "mariadb-dump": "-p", "mongo": "-p", "mongosh": "-p",
    "mongodump": "-p", "ldapsearch": "-w", "ldapadd": "-w", "ldapmodify": "-w", "sqlcmd": "-P",
    "bcp": "-P", "7z": "-p", "7za": "-p", "zip": "-P", "unzip": "-P", "unrar": "-p", "cqlsh": "-p",
    "mosquitto_pub": "-P", "mosquitto_sub": "-P", "ipmitool": "-P", "smbclient": "-P",
}  # fmt: skip
"""Programs with a short option for the password; MySQL's take it in the same word only."""

_SAME_WORD = frozenset({"mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "7z", "7za"})
_LOGINS = frozenset({"docker", "podman", "nerdctl", "helm", "az", "oc"})
"""Programs with `login -p PASSWORD`."""

_SEVERAL = (["passwords"], ["secrets"], ["tokens"], ["keys"])
"""Ends of options that may have several values."""

_PROGRAM = pattern(
    r"(?:python|pypy|perl|ruby|node|php)[\d.]*t?|(?:ba|da|z|k|mk|a|fi)?sh|curl|wget|https?|"
    + "|".join(map(re.escape, (*_SHORT_OPTIONS, *_OWNED, *_LOGINS)))
)


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
        walk = _Walk(self, os.path.basename(words[0]) if words else "")
        return [walk.after(word, walk.masked(word)) for word in words]

    def line(self, text: str) -> str:
        """A command line for a shell with masked values."""
        text = self._text(text)
        pieces, at, walk = [], 0, _Walk(self, "")
        for match in _WORD.finditer(text):
            between, word, at = text[at : match.start()], match[0], match.end()
            if not between.isspace():  # another command
                walk = _Walk(self, "")
            if quoted := _QUOTED.fullmatch(word):
                masked = self._quoted(quoted, walk)
            else:
                masked = walk.masked(word, is_one=True)
            pieces += [between, walk.after(word, masked)]
        return "".join([*pieces, text[at:]])

    def _quoted(self, match: re.Match[str], walk: _Walk) -> str:
        """A word in quotes, or an assignment whose value is."""
        name, quote = match[1] or "", match[2]
        escaped = "\\" + quote
        inner = match[3].replace(escaped, quote)
        if name and self.is_secret(name[:-1], inner):
            return f"{name}{quote}{self.masked(inner)}{quote}"
        masked = (_Walk(self, walk.program) if name else walk).masked(inner)
        if masked == inner:
            return match[0]
        return f"{name}{quote}{masked.replace(quote, escaped)}{quote}"

    def code(self, line: str, *, is_statement: bool) -> str:
        """A statement of a program on one line, or a line of a comment or of a text in it."""
        line = self.text(_OPTION_IN_CODE.sub(self._in_words, line), is_code=True)
        if is_statement:
            return line
        return _SETTING.sub(self._setting, _HEADER.sub(self._header, line))

    def _setting(self, match: re.Match[str]) -> str:
        """`password: X` in YAML, `PASSWORD=X` in the text of an environment: no word of prose, and
        no name of a variable."""
        name, between, value = match.groups()
        is_name = not any(map(str.isdigit, value)) and re.fullmatch(r"[\w.]+", value)
        return f"{name}{between}{value if is_name else self.if_secret(name, value)}"

    def _in_words(self, match: re.Match[str]) -> str:
        """A command line within a text of a program."""
        option, between, value = match.groups()
        return f"{option}{between}{self.if_secret(option, value)}"

    def if_secret(self, name: str, value: str, *, is_in_data: bool = False) -> str:
        if not self.is_secret(name, value, is_in_data=is_in_data):
            return value
        scheme = _SCHEME.match(value)  # of an Authorization
        start = scheme[0] if scheme else ""
        if says_nothing(value[len(start) :]) or _is_scheme(value.rstrip()):
            return value
        return start + self.masked(value[len(start) :])

    def without_keys(self, text: str) -> str:
        """A text whose private keys, which have several lines, are masked."""
        return _KEY.sub(lambda match: self.masked(match[0]), text)

    def value(self, name: str, text: str) -> str:
        """The value of metadata of this name."""
        return self.masked(text) if self.is_secret(name, text) else self.line(text)

    def _text(self, text: str) -> str:
        return self.text(text, is_code=False)

    def text(self, text: str, *, is_code: bool) -> str:
        """A text with masked passwords in URLs, in JSON and the like, and of known forms."""
        if "://" in text:
            text = _IN_URL.sub(self._in_url, text)
            text = _TOKEN_IN_URL.sub(lambda match: self.masked(match[1]), text)
        if "@" in text:
            text = _ORACLE.sub(lambda match: f"{match[1]}/{self.masked(match[2])}@", text)
            text = _BEFORE_HOST.sub(self._before_host, text)
        if ";" in text and _OF_CONNECTION.search(text):
            text = _CONNECTION.sub(self._in_connection, text)
        if "'" in text:
            text = _IN_SQL.sub(self._in_sql, text)
        if is_code:
            text = _LOGIN.sub(lambda match: f"{match[1]}{self.masked(match[4])}", text)
            text, at_once = _AT_ONCE.subn(self._at_once, text)
            if not at_once:
                for rule in _IN_CODE:
                    text = rule.sub(self._in_code, text)
                text = _SEVERAL_IN_CODE.sub(self._several_in_code, text)
            text = _SETTER.sub(self._in_code, text)
            text = _COMPARED.sub(self._compared, text)
            text = _STRING.sub(self._in_string, text)
        elif "=" in text:
            text = _PAIR.sub(self._pair, text)
        if ":" in text:
            text = _IN_JSON.sub(self._in_json, text)
            text = _JSON_NUMBER.sub(self._number_in_code if is_code else self._json_number, text)
            text = _JSON_LIST.sub(self._json_list, text)
            if not is_code:
                text = _IN_YAML.sub(self._in_yaml, text)
                text = _HEADER.sub(self._header, text)
        text = _BEARER.sub(lambda match: f"{match[1]}{self.masked(match[2])}", text)
        if forms := tuple(form for start, form in _FORM if start in text):
            text = _forms(forms).sub(lambda match: self.masked(match[0]), text)
        return text

    def _in_url(self, match: re.Match[str]) -> str:
        if says_nothing(match[2]):
            return match[0]
        return f"{match[1]}:{self.masked(match[2])}@"

    def _before_host(self, match: re.Match[str]) -> str:
        if says_nothing(match[2]) or is_number(match[2]) or is_file(match[2]):
            return match[0]
        return f"{match[1]}:{self.masked(match[2])}@"

    def _in_connection(self, match: re.Match[str]) -> str:
        name = re.sub(r"\s+", "_", match[1][:-1].strip())
        value = match[2].strip('{}"')
        is_secret = bool(value) and self.is_secret(name, value)
        return f"{match[1]}{self.masked(match[2])}" if is_secret else match[0]

    def _pair_in_data(self, match: re.Match[str]) -> str:
        return self._pair(match, is_in_data=True)

    def _pair(self, match: re.Match[str], *, is_in_data: bool = False) -> str:
        name, value, quote = match[1][:-1], match[2], ""
        if value[0] in "\"'":
            value, quote = value[1:-1], value[0]
        is_signature = "?" in match.string and not _SIGNATURES.isdisjoint(words_of(name))
        is_secret = is_signature or self.is_secret(
            name, value.rstrip(")]}"), is_in_data=is_in_data or bool(quote)
        )
        if not is_secret or says_nothing(value.rstrip(". ")) or _is_scheme(value):
            return match[0]
        return f"{match[1]}{quote}{self.masked(value)}{quote}"

    def _in_code(self, match: re.Match[str]) -> str:
        value = self.if_secret(match["name"], match["value"], is_in_data=True)
        if type_ := match.groupdict().get("type"):  # or the name, as in `if x: password = "X"`
            value = self.if_secret(type_, value, is_in_data=True)
        return f"{match[0][: match.start('value') - match.start()]}{value}"

    def _compared(self, match: re.Match[str]) -> str:
        """`if password == "X"`; what tokens and keys are compared with is mostly none."""
        return self._in_code(match) if self.is_secret(match["name"], "0") else match[0]

    def _several_in_code(self, match: re.Match[str]) -> str:
        """`passwords = ["X", "Y"]`"""
        return self._items(match, lambda: match["name"])

    def _at_once(self, match: re.Match[str]) -> str:
        """`user, password = "me", "X"`"""
        names = re.split(r"\s*,\s*", match["names"])
        if len(names) != len(_ITEMS.findall(match["values"])):
            return match[0]
        return self._items(match, iter(names).__next__)

    def _items(self, match: re.Match[str], name: Callable[[], str]) -> str:
        """Values with commas between them, each of which has a name."""

        def masked(item: re.Match[str]) -> str:
            of, quote = name(), item[0][-1]
            is_key = item.string[item.end() :].lstrip().startswith(":")
            if quote not in "\"'" or is_key:
                return item[0]
            start, _, text = item[0][:-1].partition(quote)
            return f"{start}{quote}{self.if_secret(of, text, is_in_data=True)}{quote}"

        values = _ITEMS.sub(masked, match["values"])
        return f"{match[0][: match.start('values') - match.start()]}{values}"

    def _in_string(self, match: re.Match[str]) -> str:
        """A text of a program, such as `"host=h password=X"`."""
        text = match[2]
        if "=" in text:
            if ";" in text and _OF_CONNECTION.search(text):
                text = _CONNECTION.sub(self._in_connection, text)
            text = _PAIR.sub(self._pair_in_data, text)
        if ":" in text:
            text = _HEADER.sub(self._header, text)
        return f"{match[1]}{text}{match[1]}"

    def _in_sql(self, match: re.Match[str]) -> str:
        name = match[1] if " " not in match[1] else "password"
        is_named = name.lower() in ("password", "secret", "passwd", "identified", "token")
        if not is_named or not self.is_secret(name, match[3]):
            return match[0]
        return f"{match[1]}{match[2]}{self.masked(match[3])}"

    def _in_json(self, match: re.Match[str]) -> str:
        value = self.if_secret(match[2], match[5], is_in_data=True)
        return f"{match[1]}{match[2]}{match[3]}{match[4]}{value}{match[6]}"

    def _json_number(self, match: re.Match[str]) -> str:
        value = self.if_secret(match[2], match[4], is_in_data=True)
        return match[0][: match.start(4) - match.start()] + (
            value if value == match[4] else f"{match[1]}{value}{match[1]}"
        )

    def _number_in_code(self, match: re.Match[str]) -> str:
        value = self.if_secret(match[2], match[4], is_in_data=True)
        return match[0][: match.start(4) - match.start()] + value

    def _json_list(self, match: re.Match[str]) -> str:
        name = match[2]

        def masked(value: re.Match[str]) -> str:
            return f"{value[1]}{self.if_secret(name, value[2], is_in_data=True)}{value[1]}"

        return f"{match[1]}{name}{match[3]}{_IN_LIST.sub(masked, match[4])}"

    def _in_yaml(self, match: re.Match[str]) -> str:
        value = self.if_secret(match[2], match[4], is_in_data=True)
        return f"{match[1]}{match[2]}{match[3]}{value}"

    def _header(self, match: re.Match[str]) -> str:
        if says_nothing(match[2]) or _is_scheme(match[2]):
            return match[0]
        is_first = match.start() == 0 or match.string[match.start() - 1] in "\"'"
        value, space, rest = match[2], "", ""
        if not is_first:
            value, space, rest = match[2].partition(" ")
            if value.isalpha() and match[1].lower().startswith("api"):  # what it is, in prose
                return match[0]
        return f"{match[1]}{self.masked(value)}{space}{rest}"

    def is_secret(self, name: str, value: str, *, is_in_data: bool = False) -> bool:
        """Whether the value of an option or variable of this name is a secret.

        Args:
            is_in_data: it is an entry of a mapping, where `key` and `token` alone say little.
        """
        if says_nothing(value):
            return False
        *above, last = [part for part in re.split(r"[./\[\]'\"]+", name) if part] or [name]
        if self.names and not self.names.isdisjoint((_plain_name(name), _plain_name(last))):
            return not (is_number(value) or is_file(value))
        return names_secret(last, "".join(above[-1:]), value, is_in_data=is_in_data)


class _Walk:
    """The words of one command, one after the other.

    Attributes:
        program: the name of the program, or "".
        before: the option before the next word, or "".
    """

    def __init__(self, rules: Rules, program: str) -> None:
        self.rules = rules
        self.program = program
        self.before = ""
        self._is_login = False
        self._sets = False  # the next word is the name of a setting

    def after(self, word: str, masked: str) -> str:
        """Go on after a word; what it was masked to is returned."""
        if _OPTION.fullmatch(word) or self._sets:
            self.before = word
        elif masked == word or words_of(self.before)[-1:] not in _SEVERAL:
            self.before = ""
        self._sets = word in ("set", "config")
        self._is_login = self._is_login or (word == "login" and self.program in _LOGINS)
        if _PROGRAM.fullmatch(name := os.path.basename(word)):
            self.program = name
        return masked

    def masked(self, word: str, *, is_one: bool = False) -> str:
        """A word with masked values.

        Args:
            is_one: it is not itself a line, though part of it may be quoted.
        """
        rules, before = self.rules, self.before
        if self._is_code(word):
            return rules.code(word, is_statement=_INTERPRETER.fullmatch(self.program) is not None)
        if (masked := self._of_program(word)) is not None:
            return masked
        if (match := _COLON.fullmatch(word)) and self._is_secret_colon(match):
            return f"{match[1]}{rules.masked(match[2])}"
        if before and not _LIKE_AN_OPTION.fullmatch(word) and rules.is_secret(before, word):
            return rules.if_secret(before, word)
        match = _ASSIGNED.fullmatch(word)
        while match and not _is_line(match):
            name, value = match.groups()
            if rules.is_secret(name, value if not _SETTINGS.search(value) else "x"):
                return word[: match.start(2)] + rules.if_secret(name, value)
            match = _ASSIGNED.fullmatch(word, match.start(2))
        if not is_one and any(map(str.isspace, word)):
            return rules.line(word)
        return rules.text(word, is_code=False)

    def _is_code(self, word: str) -> bool:
        """Whether a word is a program's text."""
        if self.before == "-c":
            return not _SHELL.fullmatch(self.program)
        is_option = _CODE_OPTIONS.fullmatch(self.before) or word.startswith("-c")
        return bool(is_option and _INTERPRETER.fullmatch(self.program))

    def _is_secret_colon(self, match: re.Match[str]) -> bool:
        """Whether `name: X`, or `password:X`, has a secret."""
        name = match[1].rstrip(": \t").lstrip("/")
        parts = words_of(name)
        if parts[-1:] == ["pass"]:
            return self.before in ("-pass", "-passin", "-passout", "-k")
        is_certain = bool({"password", "passwd", "secret", "apikey"}.intersection(parts))
        is_header = self.before in ("-H", "--header", "--headers") or match[1][-1].isspace()
        return (is_certain or is_header) and self.rules.is_secret(name, match[2])

    def _of_program(self, word: str) -> str | None:
        """A password in an option that has the user as well, or that only this program has;
        None if it is none."""
        rules, before, program = self.rules, self.before, self.program
        joined = _USERS.fullmatch(word if word.startswith("-") else f"{before} {word}")
        if (
            joined
            and program not in _OWNED
            and (joined[1] not in ("-u", "-U", "-a") or _OF_CLIENTS.fullmatch(program))
        ):
            user, colon, password = joined[3], joined[4], joined[5]
            if not (says_nothing(password) or is_number(password) or user == password):
                option = f"{joined[1]}{joined[2]}" if word.startswith("-") else ""
                return f"{option}{user}{colon}{rules.masked(password)}"
        if program == "curl" and before == "-b" and "=" in word:  # a cookie, not a file of them
            return rules.masked(word)
        if program in ("apptainer", "singularity") and before == "--pwd":  # its working folder
            return word
        if program in _LOGINS and self._is_login and before == "-p":
            return rules.masked(word)
        option = _SHORT_OPTIONS.get(program, "")
        if option and before == option and program not in _SAME_WORD:
            return rules.masked(word)
        if option and word.startswith(option) and word != option and not word.startswith("--"):
            return f"{option}{rules.masked(word[len(option) :])}"
        return None


@lru_cache(64)
def _forms(forms: tuple[str, ...]) -> re.Pattern[str]:
    """Any of these: of all at once, the search would take ten times as long."""
    return pattern("|".join(forms), re.DOTALL)


_OF_CLIENTS = pattern(r"curl|wget|https?|smbclient|lftp|rpcclient|xh|aria2c")


def hidden(value: str) -> str:
    """What a secret in source is replaced by: as many lines and columns without it."""
    word = iter("MASKED")
    return "".join("\n" if letter == "\n" else next(word, "*") for letter in value)


def _is_scheme(value: str) -> bool:
    """Whether a value is what stands before the secret in an Authorization."""
    scheme = _SCHEME.match(f"{value} x")
    return scheme is not None and scheme[1] == value


def _is_line(match: re.Match[str]) -> bool:
    """Whether it is a shell's line that begins with a variable."""
    if match[1][0] == "-" or _SCHEME.match(match[2]):
        return False
    return any(map(str.isspace, match[2]))


def _plain_name(name: str) -> str:
    return name.lstrip("-+~").replace("-", "_").lower()
