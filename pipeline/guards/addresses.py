"""Where an address may hold credentials. Knows nothing of which were given: `secrets` does.

    https://me:pw@host/a;k=1?sig=ab12&id=7#tok
            user    parameters: k=1, sig=ab12, id=7 (harmless), #tok

An address that stands alone is cut into its parts, so that nothing in a part can hide it. A text of
any kind, like the message of a library, is searched with patterns instead; so are addresses, after
that, since unknown stores may spell theirs in ways that nobody has thought of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote

MARK = "***"

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
_MARKED = re.compile(r"(?<=://)\*\*\*\d*@|[?&;#](?:[^\s/?&;#=]*=)?\*\*\*\d*")
# In these host:80/a@b has a port and no user.
_HOSTS = {"http", "https", "ftp", "sftp", "ssh", "hdfs", "webhdfs", "smb"}
# Links that may stand before others. What follows :: in other links belongs to them.
_CHAINED = {
    *("zip", "tar", "libarchive", "dir", "reference", "memory", "file", "local"),
    *("simplecache", "filecache", "blockcache", "cached"),
}
# In these a name before @ is no credential: a container, a user without a password, part of a path.
_NAMES = {
    *("abfs", "abfss", "wasb", "wasbs", "adl", "sftp", "ssh", "ftp", "hdfs", "webhdfs", "smb"),
    *_CHAINED,
}
# In these it may look like a credential, but tells which file is meant: org:repo@branch/a.jsonl.
_REPOSITORIES = {"github", "git", "oci"}
# Parameters that say what is read. All others may be credentials, or change with each signature.
_HARMLESS = {
    *("streaming", "n", "seed", "version", "versionid", "generation", "revision", "rev", "ref"),
    *("branch", "raw", "download", "dl", "alt", "format", "split", "config", "dataset", "id"),
    *("file", "path", "name", "page", "offset", "length", "limit", "part"),
}
# Parameters that change with each signature, or with who reads; the short ones are Azure's.
_CREDENTIAL = re.compile(
    r"\bsig\b|signature|token|key(?!word)|secret|cred|passw|passphrase|pwd|auth(?!or\b)|access"
    r"|expire|session|policy|\btok\b|jwt|bearer|ticket|delegation|hmac"
    r"|^x-\w+-|^s[eiprstv]$|^srt$|^spr$|^sip$|^sk(?:e|oid|s|t|tid|v)$"
)
# Parameters in an address that may have ? as a wildcard: they have a key.
_KEYED = re.compile(r"(?P<lead>[?&](?P<key>[^?&=/]+)=)(?P<value>[^&]*)")
# In addresses of the web: in the path, and from the first ? or # on, where they need no key.
_IN_PATH = re.compile(r"(?P<lead>;(?P<key>[^;/=]+)=)(?P<value>[^;/]*)")
_BEHIND_PATH = re.compile(
    r"(?P<lead>[?&#;](?:(?P<key>[^?&#;=]+)=)?)(?P<value>(?:(?!;[^?&#;=]+=)[^?&#])*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A part of an address: `value` is what may be hidden, `lead` stands before it."""

    lead: str
    value: str = ""
    key: str = ""  # of a parameter; "": it has none
    is_user: bool = False
    tells_file: bool = False  # of a user

    @property
    def is_harmless(self) -> bool:
        if self.is_user:
            return False
        if not self.value or self.value.startswith(MARK):
            return True
        # What begins with a dot is the ending behind a wildcard.
        return (self.key or self.value.lower()) in _HARMLESS or (
            not self.key and self.value.startswith(".")
        )

    @property
    def is_credential(self) -> bool:
        """Whether it is known as one, not only unknown."""
        # No server sees what is behind #, so it cannot say which file is meant.
        is_known = (self.is_user and not self.tells_file) or self.lead.startswith("#")
        return is_known or _CREDENTIAL.search(self.key) is not None


def public_address(address: str, mark: str = MARK) -> str:
    """Return an address with a mark in place of what may be a credential.

    >>> public_address("zip://a::https://me:p::w@h/x.zip?key[0]=a'b&id=7#t")
    'zip://a::https://***@h/x.zip?key[0]=***&id=7#***'
    """

    def shown(part: _Part) -> str:
        if part.is_harmless:
            return part.lead + part.value
        return f"{part.lead}{mark}{'@' if part.is_user else ''}"

    return public_text("".join(map(shown, _parts(address))), mark)


def public_text(text: str, mark: str = MARK) -> str:
    """Return a text of any kind with a mark in place of what looks like a credential in a URL."""

    def user(found: re.Match[str]) -> str:
        return f"{found['mark']}{mark}@" if _is_credential(found) else found[0]

    def parameter(found: re.Match[str]) -> str:
        return found[0] if _is_harmless(found) else f"{found['key']}={mark}"

    return _replaced(text, user, parameter)


def identity_in(address: str) -> str:
    """Return an address without credentials, to compare or hash, not to show.

    It keeps the parameters that are hidden only because nothing is known about them: they may
    say which file is meant.

    >>> identity_in("https://me:pw@host/get?X-Amz-Date=1&fileid=7#access_token=1")
    'https://host/get&fileid=7'
    """

    def kept(part: _Part) -> str:
        is_left_out = not part.is_harmless and part.is_credential
        return "" if is_left_out else part.lead + part.value

    def user(found: re.Match[str]) -> str:
        return found["mark"] if _is_credential(found) else found[0]

    def parameter(found: re.Match[str]) -> str:
        return "" if _CREDENTIAL.search(found["key"][1:].lower()) else found[0]

    whole = "".join(map(kept, _parts(address)))
    return _MARKED.sub("", _replaced(whole, user, parameter))


def is_marked(name: str) -> bool:
    """Return whether something is hidden in a public name."""
    return _MARKED.search(name) is not None


def secrets_in(address: str) -> set[str]:
    """Return what is hidden outside URLs too: not a user's name, which may be a word."""
    parts = [m["value"] for m in _QUERY.finditer(address) if not _is_harmless(m)]
    users = [m["user"] for m in _USER.finditer(address) if _is_credential(m)]
    for part in _parts(address):
        if not part.is_harmless:
            (users if part.is_user else parts).append(part.value)
    for pair in users:
        user, _, password = pair.partition(":")
        parts += [pair, password or user]
    return set(parts)


def spellings(secret: str) -> set[str]:
    """Return a secret as it is, and percent-encoded as it may come back from a library."""
    plain = unquote(secret)
    return {secret, plain, quote(plain), quote(plain, safe="")}


def _parts(address: str) -> Iterator[_Part]:
    """Yield the parts of an address; joined, they are the address, but for an @ after a user."""
    for number, link in enumerate(_links(address)):
        if number:
            yield _Part(lead="::")
        # Without a scheme, all of it is the rest: hf:name?token=…
        scheme, separator, rest = link.partition("://") if "://" in link else ("", "", link)
        yield _Part(lead=f"{scheme}{separator}")
        host, slash, path = rest.partition("/")
        user, _, host = host.rpartition("@")
        is_known = not user or user.startswith(MARK)
        if separator and not is_known and (":" in user or scheme.lower() not in _NAMES):
            tells_file = scheme.lower() in _REPOSITORIES
            yield _Part(lead="", value=user, is_user=True, tells_file=tells_file)
            rest = f"{host}{slash}{path}"
        if not _is_web(scheme.lower()):
            yield from _parameters(rest, _KEYED)
            continue
        end = re.search(r"[?#]|\Z", rest)
        place = end.start() if end else len(rest)
        yield from _parameters(rest[:place], _IN_PATH)
        yield from _parameters(rest[place:], _BEHIND_PATH)


def _parameters(text: str, pattern: re.Pattern[str]) -> Iterator[_Part]:
    start = 0
    for found in pattern.finditer(text):
        yield _Part(lead=text[start : found.start()])
        key = (found["key"] or "").lower()
        yield _Part(lead=found["lead"], value=found["value"], key=key)
        start = found.end()
    yield _Part(lead=text[start:])


def _links(address: str) -> list[str]:
    """Return the links of a chain of URLs; a password may hold the `::` that stands between."""
    found: list[str] = []
    rest = address
    while True:
        link, separator, following = rest.partition("::")
        scheme, is_url, _ = link.partition("://")
        if not separator or (is_url and scheme.lower() not in _CHAINED):
            return [*found, rest]
        found.append(link)
        rest = following


def _is_web(scheme: str) -> bool:
    return scheme in _HOSTS or scheme.endswith(("http", "https"))


def _replaced(
    text: str,
    user: Callable[[re.Match[str]], str],
    parameter: Callable[[re.Match[str]], str],
) -> str:
    if not _URL.search(text):
        return text
    return _QUERY.sub(parameter, _USER.sub(user, text))


def _is_credential(found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - _LONGEST_SCHEME) : found.start()]
    named = _SCHEME.search(before)
    user, scheme = found["user"], named[0].lower() if named else ""
    if (
        not scheme
        or user.startswith(MARK)
        or (scheme in _HOSTS and re.match(r"[^:]*:\d{1,5}/", user))
    ):
        return False
    return ":" in user or scheme not in _NAMES


def _is_harmless(found: re.Match[str]) -> bool:
    key, value = found["key"][1:].lower(), found["value"]
    return key in _HARMLESS or not value or value.startswith(MARK)
