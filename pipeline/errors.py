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


class DataprepError(Exception):
    exit_code = 1


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


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "shard"), counted(1200, "row")
    ('1 shard', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def short(text: str, limit: int = 40) -> str:
    """Cut a text that goes into a message.

    >>> short("a" * 50, limit=8)
    'aaaaa...'
    """
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
