"""Keep what was found out about a tokenizer, so that the next run need not parse it again.

    cache_dir/tokenizers/SHA256.json     line 1: all that the facts depend on; line 2: the facts

A tokenizer of 150,000 tokens has 11 MB of JSON: to hash it takes 10 ms, to parse it 700. A file
that is damaged, or that keeps the facts of something else, counts as missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dataprep.pipeline.caches import read_cached, write_cached
from dataprep.pipeline.typed import decode_as

# Raise it when facts mean something else, or are found in another way.
FACTS_VERSION = 1

T = TypeVar("T")


@cache
def installed_version(distribution: str) -> str | None:
    try:
        return distribution_version(distribution)
    except PackageNotFoundError:
        return None


def remembered(
    cache_dir: Path | None,
    parser: str,
    depends_on: Mapping[str, Any],
    of_type: type[T],
    make: Callable[[], T],
) -> T:
    """Return what `make` returned in an earlier run, or returns now.

    Besides `depends_on` it may depend on the version of the parser, which is a distribution.
    """
    version = installed_version(parser)
    if cache_dir is None or version is None:
        return make()
    versions = {"facts": FACTS_VERSION, parser: version}
    key = json.dumps({**depends_on, "versions": versions}, sort_keys=True).encode()
    place = cache_dir / "tokenizers" / f"{hashlib.sha256(key).hexdigest()}.json"
    known, _, facts = (read_cached(place) or b"").partition(b"\n")
    if known == key:
        try:
            return decode_as(facts, of_type)
        except msgspec.MsgspecError:
            pass  # as if it were missing
    made = make()
    write_cached(place, b"%s\n%s" % (key, msgspec.json.encode(made)))
    return made
