"""Whether a name says that its value is a secret: `--password X`, `api_key=X`, `HF_TOKEN=X`.

Names are compared word by word, so that `dbPassword`, `DB_PASSWORD` and `db.password` are the same.
`password` and `secret` are enough, whatever the value looks like. `key`, `token` and `pass` are
words of trainings, too: the word before decides (`api-key`, `pad-token`), or else the value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_STRONG = _set(
    "secret password passw passwo passwor passwd passphrase passwort pgpassword passcode psw pwd"
)
_JOINED = _set(
    "apikey apitoken accesskey accesstoken authtoken secretkey dbpass dbpwd userpass userpwd "
    "keypass storepass sshpass"
)
_JOINED_ENDS = (
    "password", "passwd", "passphrase", "apikey", "secretkey", "accesstoken", "authtoken",
    "clientsecret",
)  # fmt: skip
_WHOLE = _set(
    "authorization bearer cookie cred credential creds jsessionid jwt mnemonic otp phpsessid "
    "psk totp xauth"
)
"""As strong where nothing follows them, and the value is neither a number nor a file."""

_WEAK = _set("token key")
_PLURALS = _set("secret password passphrase apikey token key cookie credential")

_STILL = _set("value base64 b64 hex raw secret password access key token")
"""Words after `secret`, `key` or `token` with which the value is still the secret itself."""

_NO_VALUE = _set(
    "arn backend class cmd column command count dir env expiry fd field file filename files "
    "folder header hint id ids length manager max method min mode name names path paths policy "
    "prompt provider ref reset source stdin store strength timeout ttl type uri url version"
)
"""Words after `secret` or `password` with which the value says where it is, or of what kind."""

_COUNTS = _set("n num max min number count total many")

_OWNERS_OF_TOKENS = _set("bot client hook id login refresh registry session shared storage user")
_OWNERS = _set(
    "access account admin algolia anthropic api app atlassian auth aws azure bearer bitbucket "
    "circleci clearml cloud cloudflare codecov cohere comet consul csrf dagshub database "
    "databricks datadog db dd deploy digitalocean discord docker elevenlabs encryption "
    "fireworks ftp gcp gh git github gitlab google grafana groq heroku hf hub huggingface "
    "identity jira jwt k8s kaggle kube kubernetes langchain langsmith ldap license linode mail "
    "mailgun master minio mistral mlflow mongo mysql neptune netlify newrelic ngc ngrok nomad "
    "npm oauth okta openai openrouter pagerduty personal pg pinecone postgres private proxy "
    "pypi qdrant rabbitmq redis replicate roboflow root runpod s3 sas secret security sendgrid "
    "sentry service shopify signing slack smtp snowflake sonar sql ssh storage stripe sts "
    "subscription sudo supabase swanlab tailscale telegram together twilio twine twitter vault "
    "vercel wandb weaviate webhook write xai"
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
    "random ref reference registry rejected replace response resume reward rng role row sample "
    "score self "
    "sep separator sequence shard single sort source special split start state stop style suffix "
    "sys system target task teacher test text think tie tool tools train trigger unk unknown val "
    "validation value video visual vision watch weight with word"
)
"""Words before `key` or `token` that name a part of data, a model or a random generator."""

_OF_PASSES = _set(
    "all back backward both compile compiler each error eval fail failed fast final first forward "
    "full fuse graph skip skipped "
    "high last low lowering multi n next num one opt optimizer per second single slow test third "
    "train two"
)
"""Words before `pass`, or after it, with which it is one of several."""

_SWITCHES = _set("allow ask disable enable has keep no prompt require save skip use with without")
_CONSTANTS = _set("true false none null nil yes no on off auto default value")

_NUMBER = (
    r"[+-]?(?:0[xX][0-9a-fA-F]++|(?:\d[\d_]*+(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)[kKmMgGtTbB%]?"
)
_NUMBERS = re.compile(rf"[\[(]?\s*{_NUMBER}(?:\s*[,:;x/]\s*{_NUMBER})*\s*[\])]?")
_REFERENCE = re.compile(
    r"\$[A-Z_][A-Z_0-9]*|\$\{.*\}|\$\(.*\)|`.*`|\{\{.*\}\}|\{[\w.]*\}|env:[A-Z_]\w*|file:/.*|fd:\d+|%[A-Z_]+%"
)
_PLACEHOLDER = re.compile(r"%(?:\(\w+\))?[srdifx]|\{[\w.:!\[\]()]*\}")
_FILES = (
    r"json|ya?ml|txt|toml|cfg|env|ini|conf|py|csv|tsv|parquet|np[yz]|pth?|ckpt|safetensors|bin|h5|"
    r"pkl|png|jpe?g|wav|mp[34]|tar|gz|zip|db|log|model|vocab|list|jar"
)
_FILE = re.compile(rf"@?(?:(?:~|\.{{1,2}})/[\w./ -]+|(?:/[\w. -]+){{2,}}/?|[^=\s]*\.(?:{_FILES}))")
_KEY_FILE = re.compile(r"(?:~|\.{1,2})?/[\w./ -]*|.*\.(?:pem|key|pub|crt|cer|p12|pfx|jks|gpg|asc)")
_RANDOM = re.compile(r"(?=\w*[a-z])(?=\w*[A-Z])(?=\w*\d)\w{20,}")
_LIKE_A_KEY = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w+/=.-]{6,}")
"""What a secret among several looks like, and few words of a tokenizer do."""

_SPECIAL = re.compile(r"<.*>|\[[A-Z]+\d*\]|\|.*\||[<>|=][a-zA-Z]\d{1,2}")
_PLAIN = re.compile(r"[A-Za-z]+(?:[ _./:-][A-Za-z]+)*")
_PROSE = re.compile(r"\S {1,9}\S[^\r\n]*[\r\n]|[\r\n].*\S {1,9}\S")
_PLAIN_LIST = re.compile(r"[\[(]?[A-Za-z_]+(?:[ _./:,-]+[A-Za-z_]+)*[\])]?")
_OF_A_KEY = re.compile(r"[a-z]+(?:[_./-]+[a-z]+)*_*|[A-Za-z]+[_-]?\d{1,5}")
"""What a key without an owner may be called: `right_hand`, `rank0`."""

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+(?:64)?|\d+")


def words_of(name: str) -> list[str]:
    """The words of a name in lower case: db and password of dbPassword."""
    return [part.lower() for part in _PARTS.findall(name)]


def says_nothing(value: str) -> bool:
    """Whether a value is a constant, a mark, or the name of a variable: no secret anywhere."""
    return (
        not any(map(str.isalnum, value))
        or (("%" in value or "{" in value) and not any(map(str.isalnum, _text_around(value))))
        or value.lower() in _CONSTANTS
        or _REFERENCE.fullmatch(value) is not None
    )


def _text_around(value: str) -> str:
    """A text without the placeholders of a format."""
    return value if "!}" in value else _PLACEHOLDER.sub("", value)


def is_number(value: str) -> bool:
    """Whether a value is a number, or several."""
    return _NUMBERS.fullmatch(value) is not None


def _is_plain(value: str) -> bool:
    """Whether a value is words of letters only."""
    return _PLAIN.fullmatch(value) is not None


def _is_prose(value: str) -> bool:
    """Whether a value is lines of several words: a key in lines has none."""
    return _PROSE.search(value) is not None


def is_file(value: str) -> bool:
    """Whether a value looks like the path of a file, and not like base64."""
    return _FILE.fullmatch(value) is not None and _RANDOM.search(value) is None


def _is_key_file(value: str) -> bool:
    return _KEY_FILE.fullmatch(value) is not None and _RANDOM.search(value) is None


def names_secret(name: str, above: str, value: str, *, is_in_data: bool = False) -> bool:
    """Whether a name, such as `api_key` in `wandb.api_key`, says that this value is a secret.

    Args:
        above: the name before it, `wandb`, or "".
        is_in_data: it is an entry of a mapping, where `key` and `token` alone say little.
    """
    if says_nothing(value):
        return False
    parts = words_of(name)
    is_plural = False
    for at, part in enumerate(parts):
        before, after = parts[:at], parts[at + 1 :]
        if part[:-1] in _PLURALS and part.endswith("s"):
            part, is_plural = part[:-1], True
        is_whole = all(word in _STILL or word.isdigit() for word in after)
        if part in _JOINED or (part.endswith(_JOINED_ENDS) and part not in _STRONG):
            return not _NO_VALUE.intersection(after) and _is_given(before, value)
        if part == "api" and after[:1] == ["key"]:
            return not _NO_VALUE.intersection(after) and _is_given(before, value)
        if part in _STRONG and not _NO_VALUE.intersection(after):
            if not is_whole:
                return not (_is_plain_or_file(value) or is_number(value) or _is_prose(value))
            return _is_given(before, value) and not (part == "pwd" and is_file(value))
        if part == "pass" and not after:
            return _is_pass(before, value)
        if part == "pat" and before and not after:
            return before[-1] in _OWNERS and not (is_number(value) or is_file(value))
        if part in _WHOLE and is_whole:
            return _is_given(before, value) and not (is_number(value) or is_file(value))
        if part == "auth" and not after:
            return not (is_number(value) or _is_plain_or_file(value))
        joined = re.fullmatch(r"(\w+)(token|key)", part)
        if joined and joined[1] in _OWNERS:
            part, before = joined[2], [*before, joined[1]]
        if part in _WEAK and is_whole:
            before = before or words_of(above)
            return _is_secret_token(part, before, value, is_in_data, is_plural)
    return False


def _is_plain_or_file(value: str) -> bool:
    return _is_plain(value) or is_file(value) or _is_key_file(value)


def _is_given(before: Sequence[str], value: str) -> bool:
    """Whether a name that says secret has the secret, after these words: not `--no-password`."""
    if _COUNTS.intersection(before) and is_number(value):
        return False
    return not (before and before[0] in _SWITCHES)


def _is_pass(before: Sequence[str], value: str) -> bool:
    """Whether the value of `pass`, or `...-pass`, is a password."""
    if before and (before[-1] in _OWNERS or before[-1] in _OWNERS_OF_TOKENS):
        return True
    if is_number(value) or _OF_PASSES.intersection((*before, *words_of(value))):
        return False
    return not before or not _OF_A_KEY.fullmatch(value)


def _is_secret_token(
    part: str, before: Sequence[str], value: str, is_in_data: bool, is_plural: bool
) -> bool:
    """Whether the value of `...-key` or `...-token` is a secret, given the words before."""
    if _SPECIAL.fullmatch(value) or is_number(value) or is_file(value) or _is_prose(value):
        return False
    if part == "key" and _is_key_file(value):
        return False
    is_owned = bool(before) and (
        before[-1] in _OWNERS or (part == "token" and before[-1] in _OWNERS_OF_TOKENS)
    )
    if is_plural and (_PLAIN_LIST.fullmatch(value) or (part == "key" and not is_owned)):
        return False
    if is_plural and is_in_data and not is_owned and not _LIKE_A_KEY.fullmatch(value):
        return False
    plain = _OF_A_KEY if part == "key" else _PLAIN
    if not before:
        return (
            not (plain.fullmatch(value) or _is_plain(value))
            if is_in_data
            else part == "token" or not (_OF_A_KEY.fullmatch(value) and value[0].islower())
        )
    if before[0] in _SWITCHES and _PLAIN.fullmatch(value):
        return False
    return is_owned or (before[-1] not in _OF_DATA and not plain.fullmatch(value))
