"""Read stdin as JSONL, which `spools` keep: `zcat a.jsonl.gz | dataprep tokenize - …`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.sources.spools import Spools, spooled_bytes

STDIN = "-"
_READ_BYTES = 1 << 20


@contextmanager
def spooled(inputs: Sequence[str]) -> Iterator[Spools]:
    """Keep the bytes of stdin while the block runs, if it is one of the inputs."""
    if STDIN not in inputs:
        yield {}
        return
    if list(inputs).count(STDIN) > 1:
        raise ConfigError("stdin (-) is given twice, but can be read only once; leave one out")
    if sys.stdin is None or not _is_open(0):
        raise ConfigError("stdin (-) is closed; pipe JSONL into the command")
    if os.isatty(0):
        raise ConfigError(
            "stdin (-) is a terminal; pipe JSONL into the command, as in cat a.jsonl | dataprep …"
        )
    with spooled_bytes(_chunks(), "stdin", "stdin (-)") as spool:
        yield {STDIN: spool}


def _is_open(handle: int) -> bool:
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


def _chunks() -> Iterator[bytes]:
    while True:
        try:
            data = os.read(0, _READ_BYTES)
        except OSError as error:
            raise InputError(f"cannot read stdin (-): {error.strerror}") from error
        if not data:
            return
        yield data
