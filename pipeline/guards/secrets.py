"""Keep credentials of URLs out of everything that is shown or written.

    given     s3://KEY:SECRET@bucket/a.jsonl        https://h/a.jsonl?X-Amz-Signature=ab12…
    public    s3://***@bucket/a.jsonl               https://h/a.jsonl?X-Amz-Signature=***

`hidden` turns what the user gives into public names, as the first thing that happens to it: so
configs, plans, manifests, messages and identities know public names only. `address_of` gives the
address of a public name to the code that opens it. Addresses are held in memory; worker processes
get them in memory too (`packed`, `learn`), since plans lie in the output folder.

`redacted` is the second net, for texts of libraries: it hides what looks like a credential in a
URL, and every secret that was ever given. Where credentials may stand, `addresses` knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dataprep.pipeline.guards.addresses import (
    MARK,
    identity_in,
    is_marked,
    public_address,
    public_text,
    secrets_in,
    spellings,
)

_SHORTEST = 8  # a shorter secret is hidden inside URLs only: it may be a word of a message

_addresses: dict[str, str] = {}  # by public name
# By their first characters and their lengths, so that the time to find one in a text does not
# depend on how many there are: thousands of signed URLs may begin with the same characters.
_secrets: dict[str, dict[int, set[str]]] = {}


def hidden(given: Iterable[str]) -> list[str]:
    """Return the public names of what the user gave, and remember their addresses.

    Two addresses that differ only in what is hidden are told apart by a number: `***2`.
    """
    names: dict[str, str] = {}  # addresses, by their public names
    return [_hide(text, names) for text in given]


def _hide(text: str, taken: dict[str, str]) -> str:
    is_name = "://" not in text and not text.startswith("hf:")
    if is_name:
        return text
    public, number = public_address(text), 1
    if public == text:
        return text
    while taken.setdefault(public, text) != text:
        number += 1
        public = public_address(text, f"{MARK}{number}")
    _remember(public, text)
    return public


def hidden_like(name: str, addresses: Iterable[str]) -> list[str]:
    """Return the public names of addresses that were found under a public name."""
    number = re.search(r"\*{3}(\d*)", name)
    mark = number[0] if number else MARK
    found = []
    for address in addresses:
        found.append(public_address(address, mark))
        if found[-1] != address:
            _remember(found[-1], address)
    return found


def address_of(name: str) -> str:
    """Return the address of a public name; a name without anything hidden is its own address."""
    return _addresses.get(name, name)


def is_lost(name: str) -> bool:
    """Return whether a name has something hidden that this process does not know."""
    return is_marked(name) and address_of(name) == name


def identity_of(name: str) -> str:
    """Return the address of a public name without credentials, to compare or hash, not to show.

    >>> identity_of("https://me:pw@host/get?X-Amz-Date=1&fileid=7")
    'https://host/get&fileid=7'
    """
    return identity_in(address_of(name))


def redacted(text: str) -> str:
    """Return a text of any kind without credentials.

    >>> redacted("cannot open ftp://me:pw@host/a?token=1: 403")
    'cannot open ftp://***@host/a?token=***: 403'
    """
    return public_text(without_secrets(text))  # what was given may hold what ends a pattern


def without_secrets(text: str) -> str:
    """Return a text without the secrets that were given; other URLs in it stay as they are."""
    if not _secrets:
        return text
    shown, end = [], 0
    for first, last in _found(text):
        if first >= end:  # else it overlaps the one before, which hides its beginning
            shown += [text[end:first], MARK]
        end = max(end, last)
    return "".join([*shown, text[end:]])


def _found(text: str) -> Iterator[tuple[int, int]]:
    """Yield where secrets stand; of those that begin at one place, where the longest stands."""
    for place in range(len(text) - _SHORTEST + 1):
        alike = _secrets.get(text[place : place + _SHORTEST])
        if alike is None:
            continue
        ends = [place + n for n, known in alike.items() if text[place : place + n] in known]
        if ends:
            yield place, max(ends)


def packed() -> bytes:
    """Return the addresses for a process that is being started; they go through no file."""
    import json  # here and below: every command imports this module before it does anything

    return json.dumps(_addresses).encode() if _addresses else b""


def learn(data: bytes) -> None:
    """Take over what the parent process has packed."""
    import json

    for public, address in json.loads(data or b"{}").items():
        _remember(public, address)


def _remember(public: str, address: str) -> None:
    if not _secrets:
        _redact_logs()
    _addresses[public] = address
    for secret in secrets_in(address):
        known = _secrets.get(secret[:_SHORTEST], {}).get(len(secret), ())
        for spelling in () if secret in known else spellings(secret):
            if len(spelling) >= _SHORTEST:
                alike = _secrets.setdefault(spelling[:_SHORTEST], {})
                alike.setdefault(len(spelling), set()).add(spelling)


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
