"""Keep credentials of URLs out of everything that is shown or written.

    given     s3://KEY:SECRET@bucket/a.jsonl        https://h/a.jsonl?X-Amz-Signature=ab12…
    public    s3://***@bucket/a.jsonl               https://h/a.jsonl?X-Amz-Signature=***

`hidden` turns what the user gives into public names, as the first thing that happens to it: so
configs, plans, manifests, messages and identities know public names only. `address_of` gives the
address of a public name to the code that opens it. Addresses are held in memory; worker processes
get them through their environment, since plans lie in the output folder.

`redacted` is the second net, for texts of libraries: it hides what looks like a credential in a
URL, and every secret that was ever given.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable

VARIABLE = "DATAPREP_ADDRESSES"
_VARIABLE_BYTES = 100_000  # Linux takes 128 KiB at most in one variable
_MARK = "***"
_SHORTEST = 8  # a shorter secret is hidden inside URLs only: it may be a word of a message

# Texts of any length and content are searched. Where a repetition may start inside another, it has
# a bound, and the scheme is read backwards: else the time grows with the square of the length.
_SCHEME = re.compile(r"[A-Za-z][\w+.-]+\Z")
_LONGEST_SCHEME = 32
# Before the last @ of the host, or a pair whose secret holds a slash. Path("s3://b") loses a slash.
_USER = re.compile(
    r"(?<=[\w+.-]{2})(?P<mark>://?)"
    r"(?P<user>(?:(?!::)[^\s/'\"])+|[^\s/@:'\"]+:(?!:)(?:(?!::|://)[^\s@'\"]){0,300})@"
)
_QUERY = re.compile(r"(?P<key>[?&][\w.~%+-]+)=(?P<value>(?:(?!::|:\s)[^\s&#'\"<>])*)")
_URL = re.compile(r":/|\bhf:")
_MARKED = re.compile(r"(?<=://)\*\*\*\d*@|[?&][\w.~%+-]+=\*\*\*\d*")
# In these host:80/a@b has a port and no user.
_HOSTS = {"http", "https", "ftp", "sftp", "ssh", "hdfs", "webhdfs", "smb"}
# In these a name before @ is no credential: a container, a user without a password, part of a path.
_NAMES = {
    *("abfs", "abfss", "wasb", "wasbs", "adl", "sftp", "ssh", "ftp", "hdfs", "webhdfs", "smb"),
    *("memory", "file", "local", "zip", "tar", "dir", "simplecache", "filecache", "blockcache"),
}
# Parameters that say what is read. All others may be credentials, or change with each signature.
_HARMLESS = {
    *("streaming", "n", "seed", "version", "versionid", "generation", "revision", "rev", "ref"),
    *("branch", "raw", "download", "dl", "alt", "format", "split", "config", "dataset", "id"),
    *("file", "path", "name", "page", "offset", "length", "limit", "part"),
}
# Parameters that change with each signature, or with who reads; the short ones are Azure's.
_CREDENTIAL = re.compile(
    r"\bsig\b|signature|token|key(?!word)|secret|cred|passw|passphrase|pwd|auth(?!or\b)|access"
    r"|expire|session|policy|^x-\w+-|^s[eiprstv]$|^srt$|^spr$|^sip$|^sk(?:e|oid|s|t|tid|v)$"
)

_addresses: dict[str, str] = {}  # by public name
_secrets: set[str] = set()
_reading = threading.Lock()


def hidden(given: Iterable[str]) -> list[str]:
    """Return the public names of what the user gave, and remember their addresses.

    Two addresses that differ only in what is hidden are told apart by a number: `***2`.
    """
    names: dict[str, str] = {}  # addresses, by their public names
    return [_hide(text, names) for text in given]


def _hide(text: str, taken: dict[str, str]) -> str:
    public, number = _public(text), 1
    is_name = "://" not in text and not text.startswith("hf:")
    if is_name or public == text:
        return text
    while taken.setdefault(public, text) != text:
        number += 1
        public = _public(text, f"{_MARK}{number}")
    _remember(public, text)
    return public


def hidden_like(name: str, addresses: Iterable[str]) -> list[str]:
    """Return the public names of addresses that were found under a public name."""
    number = re.search(r"\*{3}(\d*)", name)
    mark = number[0] if number else _MARK
    found = []
    for address in addresses:
        found.append(_public(address, mark))
        if found[-1] != address:
            _remember(found[-1], address)
    return found


def address_of(name: str) -> str:
    """Return the address of a public name; a name without anything hidden is its own address."""
    _read_environment()
    return _addresses.get(name, name)


def is_lost(name: str) -> bool:
    """Return whether a name has something hidden that this process does not know."""
    return _MARKED.search(name) is not None and address_of(name) == name


def identity_of(name: str) -> str:
    """Return the address of a public name without credentials, to compare or hash, not to show.

    It keeps the parameters that are hidden only because nothing is known about them: they may
    say which file is meant.

    >>> identity_of("https://me:pw@host/get?X-Amz-Date=1&fileid=7")
    'https://host/get&fileid=7'
    """

    def user(found: re.Match[str]) -> str:
        return found["mark"] if _is_credential(found) else found[0]

    def parameter(found: re.Match[str]) -> str:
        return "" if _CREDENTIAL.search(found["key"][1:].lower()) else found[0]

    return _MARKED.sub("", _QUERY.sub(parameter, _USER.sub(user, address_of(name))))


def redacted(text: str) -> str:
    """Return a text of any kind without credentials.

    >>> redacted("cannot open ftp://me:pw@host/a?token=1: 403")
    'cannot open ftp://***@host/a?token=***: 403'
    """
    return without_secrets(_public(text))


def without_secrets(text: str) -> str:
    """Return a text without the secrets that were given; other URLs in it stay as they are."""
    for secret in sorted(_secrets, key=lambda secret: (-len(secret), secret)):  # pairs first
        text = text.replace(secret, _MARK)
    return text


def environment() -> dict[str, str]:
    """Return the variables by which a worker process knows the addresses."""
    if not _addresses:
        return {}
    import base64  # here and below: every command imports this module before it does anything
    import json
    import zlib

    packed = base64.b85encode(zlib.compress(json.dumps(_addresses).encode())).decode()
    parts = range(0, len(packed), _VARIABLE_BYTES)
    return {f"{VARIABLE}_{i}": packed[i : i + _VARIABLE_BYTES] for i in parts}


def _read_environment() -> None:
    """Take over what the parent process knows, and leave nothing of it to other processes."""
    with _reading:  # a thread that finds the variables gone must find the addresses
        names = [name for name in os.environ if name.startswith(f"{VARIABLE}_")]
        if not names:
            return
        import base64
        import json
        import zlib

        ordered = sorted(names, key=lambda name: int(name.rpartition("_")[2]))
        packed = "".join(os.environ.pop(name) for name in ordered)
        for public, address in json.loads(zlib.decompress(base64.b85decode(packed))).items():
            _remember(public, address)


def _remember(public: str, address: str) -> None:
    if not _secrets:
        _redact_logs()
    _addresses[public] = address
    _secrets.update(s for s in _secrets_in(address) if len(s) >= _SHORTEST)


def _secrets_in(address: str) -> Iterable[str]:
    """Return what is hidden outside URLs too: not a user's name, which may be a word."""
    from urllib.parse import quote, unquote

    parts = [m["value"] for m in _QUERY.finditer(address) if not _is_harmless(m)]
    for found in _USER.finditer(address):
        if _is_credential(found):
            user, _, password = found["user"].partition(":")
            parts += [found["user"], password or user]
    plain = [unquote(part) for part in parts]
    return {*parts, *plain, *map(quote, plain), *(quote(part, safe="") for part in plain)}


def _public(text: str, mark: str = _MARK) -> str:
    def user(found: re.Match[str]) -> str:
        return f"{found['mark']}{mark}@" if _is_credential(found) else found[0]

    def parameter(found: re.Match[str]) -> str:
        return found[0] if _is_harmless(found) else f"{found['key']}={mark}"

    if not _URL.search(text):
        return text
    return _QUERY.sub(parameter, _USER.sub(user, text))


def _is_credential(found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - _LONGEST_SCHEME) : found.start()]
    named = _SCHEME.search(before)
    user, scheme = found["user"], named[0].lower() if named else ""
    if (
        not scheme
        or user.startswith(_MARK)
        or (scheme in _HOSTS and re.match(r"[^:]*:\d{1,5}/", user))
    ):
        return False
    return ":" in user or scheme not in _NAMES


def _is_harmless(found: re.Match[str]) -> bool:
    key, value = found["key"][1:].lower(), found["value"]
    return key in _HARMLESS or not value or value.startswith(_MARK)


def _redact_logs() -> None:
    """Hide secrets in what libraries log, by whatever handler."""
    import logging
    from contextlib import suppress

    make = logging.getLogRecordFactory()

    def redacting(*args: object, **kwargs: object) -> logging.LogRecord:
        record = make(*args, **kwargs)
        with suppress(TypeError, ValueError, KeyError):  # a message that does not fit its values
            record.msg, record.args = redacted(record.getMessage()), None
        return record

    logging.setLogRecordFactory(redacting)
