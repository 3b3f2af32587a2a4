"""What the first record of an input of token ids tells of the others: which keys they have.

Packed rows of Megatron-Bridge look like other rows of ids, but their loss mask says of each token
whether the *next* one has loss. Taken for ours, it would be one place off from end to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.documents.rules import pretokenized_of
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources import Keys, format_of, read_source
from dataprep.pipeline.types import ABSENT, Source

STARTS_OF_BRIDGE = "seq_start_id"  # where the documents of a row start
MASK_OF_BRIDGE = "loss_mask"
WHY_NOT_BRIDGE = (
    f"{STARTS_OF_BRIDGE!r}, as packed rows of Megatron-Bridge have: their {MASK_OF_BRIDGE!r} is "
    "one place ahead of the tokens, and each row would be one document; take what they were made "
    "from, or what dataprep export --to hf writes of that"
)


def first_sources(sources: Sequence[Source], inputs: Sequence[int]) -> Iterator[tuple[int, Source]]:
    """Yield the first source of each input."""
    yield from sorted({i: at for at, i in zip(sources[::-1], inputs[::-1], strict=True)}.items())


def keys_there(source: Source, maybe: frozenset[str]) -> frozenset[str]:
    """Return which of these keys the first record has, as far as it can be read."""
    schema = format_of(source.kind).schema(source)
    if schema is not None:
        return maybe & frozenset(schema.names)
    with suppress(InputError):
        keys = Keys(needed=frozenset(), maybe=maybe)
        for _, records in read_source(source, keys, batch_bytes=1 << 16):
            if len(records.lines):
                row = records.as_rows()[0]
                return frozenset(key for key in maybe if row.get(key, ABSENT) is not ABSENT)
    return frozenset()


def refuse_masks_ahead(
    config: TokenizeConfig, sources: Sequence[Source], inputs: Sequence[int]
) -> None:
    """Raise if the loss mask that is to be read is one place ahead of the tokens."""
    for i, source in first_sources(sources, inputs):
        ids = pretokenized_of(config, i)
        if ids is None or ids.loss_mask != MASK_OF_BRIDGE:
            continue
        if keys_there(source, frozenset({STARTS_OF_BRIDGE})):
            raise InputError(f"{source.path} has {WHY_NOT_BRIDGE}")
