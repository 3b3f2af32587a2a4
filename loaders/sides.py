"""Views of documents that have two sides, which one mask tells apart: each side in its own arrays.

    row          a b X c EOS | X d EOS | e Y EOS | Y f EOS | padding      S + 1 tokens
    encoder      1 1 1 1  1    0 0  0    1 1  1    0 0  0
    encoder side a b X c EOS e Y EOS 0 0 …         segments 1 1 1 1 1 2 2 2 0 0
    decoder side X d EOS Y f EOS 0 0 …             segments 1 1 1 2 2 2 0 0

Segment i of one side belongs to segment i of the other. Positions count from 0 in each. Both sides
have as many columns as the loader's inputs, S, which always suffices, unless lengths are given:
then a row that needs more is an error, not cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.packed import Batch
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.storage.masks import MASKS

WEIGHTS = MASKS["weight"].array


class SidedRows(Protocol):
    """What these views need to know of a dataset."""

    @property
    def masks(self) -> tuple[str, ...]: ...
    @property
    def pad(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Seq2Seq:
    """The view `seq2seq`: what an encoder reads, what a decoder reads and predicts.

    encoder_input_tokens, encoder_segment_ids, encoder_positions     i32[B, encoder_len]
    decoder_input_tokens, decoder_target_tokens                      i32[B, decoder_len]
    decoder_segment_ids, decoder_positions                           i32[B, decoder_len]
    decoder_loss_mask                                                bool[B, decoder_len]
    decoder_loss_weights, if the data has weights                    f32[B, decoder_len]

    Decoder inputs are the targets, one to the right, after `start_id` (default: padding) in each
    segment. Padding has segment 0 and no loss.
    """

    encoder_len: int | None = None
    decoder_len: int | None = None
    start_id: int | None = None
    pad: int = 0  # filled in by `for_datasets`

    def for_datasets(self, datasets: Sequence[SidedRows]) -> Self:
        """Return the view with what these datasets tell; a ConfigError if it suits none."""
        _check(datasets, "encoder", "seq2seq", "objective.kind spans, prefix or seq2seq")
        return replace(self, pad=datasets[0].pad)

    def __call__(self, rows: Batch) -> Batch:
        is_encoder, is_token = rows["encoder_mask"], rows["segment_ids"] > 0
        width = rows["tokens"].shape[1] - 1
        encoder = _Side.of(
            rows, is_token & is_encoder, self.encoder_len or width, "encoder_len", self.pad
        )
        decoder = _Side.of(
            rows, is_token & ~is_encoder, self.decoder_len or width, "decoder_len", self.pad
        )
        targets = decoder.arrays["tokens"]
        inputs = np.full_like(targets, self.pad)
        inputs[:, 1:] = targets[:, :-1]
        begins = decoder.arrays["positions"] == 0
        start = self.pad if self.start_id is None else self.start_id
        inputs[begins] = np.where(decoder.arrays["segment_ids"][begins] > 0, start, self.pad)
        batch = {
            "encoder_input_tokens": encoder.arrays["tokens"],
            "encoder_segment_ids": encoder.arrays["segment_ids"],
            "encoder_positions": encoder.arrays["positions"],
            "decoder_input_tokens": inputs,
            "decoder_target_tokens": targets,
            "decoder_segment_ids": decoder.arrays["segment_ids"],
            "decoder_positions": decoder.arrays["positions"],
            "decoder_loss_mask": decoder.arrays["loss_mask"],
        }
        if WEIGHTS in decoder.arrays:
            batch["decoder_loss_weights"] = decoder.arrays[WEIGHTS]
        return batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """The view `preference`: the chosen and the rejected side, prompt and completion of each.

    chosen_tokens, chosen_segment_ids, chosen_positions         i32[B, length]
    chosen_loss_mask                                            bool[B, length], on the completion
    chosen_loss_weights, if the data has weights                f32[B, length]
    the same of rejected_…

    Nothing is shifted: token i is predicted by what is before it, and the first of a segment never
    has loss. Segment i of both sides is of the same prompt.
    """

    length: int | None = None
    pad: int = 0  # filled in by `for_datasets`

    def for_datasets(self, datasets: Sequence[SidedRows]) -> Self:
        """Return the view with what these datasets tell; a ConfigError if it suits none."""
        _check(datasets, "rejected", "preference", "objective.kind preference")
        return replace(self, pad=datasets[0].pad)

    def __call__(self, rows: Batch) -> Batch:
        is_rejected, is_token = rows["rejected_mask"], rows["segment_ids"] > 0
        width = self.length or rows["tokens"].shape[1] - 1
        batch: Batch = {}
        for name, chosen in (("chosen", ~is_rejected), ("rejected", is_rejected)):
            side = _Side.of(rows, is_token & chosen, width, "length", self.pad).arrays
            is_first = side["positions"] == 0
            for mask in ("loss_mask", WEIGHTS):
                if mask in side:
                    side[mask][is_first] = 0
            batch |= {f"{name}_{key}": array for key, array in side.items()}
        return batch


def _check(datasets: Sequence[SidedRows], mask: str, view: str, how: str) -> None:
    if not any(mask in dataset.masks for dataset in datasets):
        raise ConfigError(
            f"view {view!r} needs documents of two sides (the mask {mask!r}), which these datasets "
            f"do not have; tokenize them with {how}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    arrays: dict[str, NDArray[Any]]  # tokens, segment_ids, positions, loss_mask, loss_weights

    @classmethod
    def of(
        cls, rows: Batch, chosen: NDArray[np.bool_], width: int, argument: str, pad: int
    ) -> _Side:
        """Return the chosen tokens of each row moved together, at its left."""
        row, column = np.nonzero(chosen)
        counts = chosen.sum(axis=1)
        if int(counts.max(initial=0)) > width:
            raise ConfigError(
                f"a row has {counts.max()} tokens for {argument} {width}; set it to "
                f"{counts.max()} or more, or leave it out for the length of the rows"
            )
        # The chosen tokens of a row are counted from its first.
        number = np.arange(len(row))
        place = number - (np.cumsum(counts) - counts)[row]
        segment = rows["segment_ids"][row, column]
        begins = np.ones(len(row), np.bool_)
        begins[1:] = (row[1:] != row[:-1]) | (segment[1:] != segment[:-1])
        position = number - np.maximum.accumulate(np.where(begins, number, 0))
        found = {"tokens": rows["tokens"][row, column], "segment_ids": segment}
        found |= {"positions": position, "loss_mask": rows["loss_mask"][row, column]}
        if WEIGHTS in rows:
            found[WEIGHTS] = rows[WEIGHTS][row, column]
        arrays: dict[str, NDArray[Any]] = {}
        for name, values in found.items():
            kind = np.int32 if name == "positions" else values.dtype
            array = np.full((len(chosen), width), pad if name == "tokens" else 0, kind)
            array[row, place] = values
            arrays[name] = array
        return cls(arrays=arrays)
