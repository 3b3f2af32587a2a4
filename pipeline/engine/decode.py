"""Turn ids back into text for people to read, and find the ids a tokenizer puts around a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from dataprep.pipeline.engine.files import (
    BYTES_SPECIAL,
    TokenizerFiles,
    parse_json,
    parse_sentencepiece,
    read_defining_file,
)
from dataprep.pipeline.engine.interface import EngineFailedError, failures_told
from dataprep.pipeline.engine.special import read_tokenizer_config
from dataprep.pipeline.errors import ConfigError


def load_decoder(files: TokenizerFiles) -> Callable[[Sequence[int]], str]:
    """Return the function that turns ids into text.

    Special tokens are shown; ids that the tokenizer does not have appear as <|id|>.
    """
    if files.kind == "bytes":
        names = {id: token for token, id in BYTES_SPECIAL.items()}
        return _runs_decoder(names.get, lambda ids: bytes(ids).decode("utf-8", "replace"), 256)
    data = read_defining_file(files)
    if files.kind == "sentencepiece":
        processor = parse_sentencepiece(data, files.path)
        size = processor.get_piece_size()
        control = {i: processor.id_to_piece(i) for i in range(size) if processor.is_control(i)}
        return _runs_decoder(control.get, processor.decode, size)
    tokenizer = parse_json(data, files.path)
    return _runs_decoder(
        lambda id: None,
        lambda ids: str(tokenizer.decode(ids, skip_special_tokens=False)),
        files.vocab_size,
    )


def template_ids(files: TokenizerFiles) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that the tokenizer adds before and after a text: ((101,), (102,)) for BERT."""
    if files.kind == "bytes":
        return (), ()
    if files.kind == "sentencepiece":
        config = read_tokenizer_config(Path(files.path).parent)
        bos = files.bos_id if config.get("add_bos_token") is True else None
        eos = files.eos_id if config.get("add_eos_token") is True else None
        return () if bos is None else (bos,), () if eos is None else (eos,)
    tokenizer = parse_json(read_defining_file(files), files.path)
    try:
        with failures_told():
            before, after = _around(tokenizer.encode("a", add_special_tokens=True))
    except EngineFailedError as error:
        raise ConfigError(
            f"{files.path} cannot add its special tokens to a text ({error}); "
            "set --no-field-special-tokens or name another tokenizer"
        ) from None
    outside = [id for id in (*before, *after) if id >= files.vocab_size]
    if outside:
        raise ConfigError(
            f"the post_processor of {files.path} adds id {outside[0]}, which is outside its "
            f"vocabulary of {files.vocab_size}; correct it, or set --no-field-special-tokens"
        )
    return before, after


def _around(encoding: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    # sequence ids of [CLS] a [SEP]: [None, 0, None]
    of_text = [place for place, sequence in enumerate(encoding.sequence_ids) if sequence == 0]
    first, last = (of_text[0], of_text[-1]) if of_text else (len(encoding.ids), len(encoding.ids))
    return tuple(encoding.ids[:first]), tuple(encoding.ids[last + 1 :])


def _runs_decoder(
    named: Callable[[int], str | None], decode_run: Callable[[list[int]], str], size: int
) -> Callable[[Sequence[int]], str]:
    def name_of(id: int) -> str | None:
        return named(id) or (f"<|{id}|>" if id >= size else None)

    def decode(ids: Sequence[int]) -> str:
        parts = []
        for special, run in groupby(map(int, ids), key=lambda id: name_of(id) is not None):
            run_ids = list(run)
            parts.append(
                "".join(name_of(i) or "" for i in run_ids) if special else decode_run(run_ids)
            )
        return "".join(parts)

    return decode
