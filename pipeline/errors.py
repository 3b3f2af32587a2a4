"""The errors that users can meet, with their exit codes.

    DataprepError            1  unexpected
    ├── ConfigError          2  a flag, a config key, a tokenizer that cannot be used
    ├── InputError           3  the data: a file, a line, a field
    ├── ConflictError        4  config, tokenizer or input no longer match an existing output
    ├── CorruptError         5  a dataset that is incomplete or damaged
    ├── ResourceError        6  disk, memory or workers lost; run the same command again
    └── LockedError         75  another run is writing the output

Messages say cause, value, place and fix, in lower case and without a full stop. Our own faults are
`assert`s, never one of these.
"""

from __future__ import annotations

import errno

from dataprep.pipeline.guards.secrets import redacted

_BEHIND = 1000  # characters behind a cut that are looked at: a credential may begin before it


class DataprepError(Exception):
    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(redacted(message))  # libraries put whole URLs into their messages


class ConfigError(DataprepError):
    exit_code = 2


class InputError(DataprepError):
    exit_code = 3


class ConflictError(DataprepError):
    exit_code = 4


class CorruptError(DataprepError):
    exit_code = 5


class ResourceError(DataprepError):
    exit_code = 6


class LockedError(DataprepError):
    exit_code = 75


# Workers report errors by class name; this turns the name back into the class.
BY_NAME: dict[str, type[DataprepError]] = {
    error.__name__: error
    for error in (
        DataprepError,
        ConfigError,
        InputError,
        ConflictError,
        CorruptError,
        ResourceError,
        LockedError,
    )
}


def lacks_memory(error: BaseException | None) -> bool:
    """Return whether the error, or what caused it, is a lack of memory.

    >>> lacks_memory(MemoryError()), lacks_memory(RuntimeError("can't start new thread"))
    (True, True)
    """
    if error is None:
        return False
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    # A thread has no room for its stack, or the linker has none for a library.
    signs = {RuntimeError: "can't start new thread", ImportError: "failed to map segment"}
    texts = [text for kind, text in signs.items() if isinstance(error, kind)]
    return any(text in str(error) for text in texts) or lacks_memory(error.__cause__)


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "shard"), counted(1200, "row")
    ('1 shard', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def short(text: str, limit: int = 40) -> str:
    """Cut a text that goes into a message; credentials are hidden first, or they could not be told.

    >>> short("a" * 50, limit=8), short("ftp://me:password@host/a", limit=15)
    ('aaaaa...', 'ftp://***@ho...')
    """
    window = text[: limit + _BEHIND]
    shown = redacted(window)
    return shown if len(shown) <= limit and window == text else f"{shown[: limit - 3]}..."
