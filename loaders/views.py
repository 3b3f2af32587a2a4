"""What a batch looks like to a trainer: names, shifts and dtypes.

`VIEWS` has a table for each built-in view: which array, how far shifted. What a table cannot say,
its `finish` does to the finished arrays. A view of the user's own is a function that gets the rows
as `dataset[[…]]` returns them, S + 1 columns of each array, and returns arrays of S columns.

    default   inputs, targets, loss_mask (of the targets), segment_ids, positions, vision_mask
    lwm       input_tokens, target_tokens, loss_masks f32, {input,target}_vision_masks; of rows that
              were padded under `compat: lwm`, no input has the last token of a padded row
    lwm_bos   the same, but every row of input_tokens begins with BOS: LWM's always_start_with_bos
    maxtext   inputs, targets, {inputs,targets}_{position,segmentation}; targets have the positions
              of the inputs, and segment 0 without loss, which is where MaxText looks
    xlstm     inputs, targets, {inputs,targets}_{position,segmentation}, all of S + 1 columns: the
              targets are the whole row, the inputs the same after an EOS; targets have segment 0
              without loss, and the first token of a document is a target if the document says so
    xlstm_unshifted    the same, but inputs are the whole row, too
    hf        input_ids, labels (-100 without loss), position_ids, all of S + 1 columns, since the
              models shift the labels; attention_mask only where every row is one document: any
              mask keeps transformers from finding the documents of a row by their position_ids
    seq2seq   encoder_input_tokens, decoder_input_tokens, decoder_target_tokens …: see `sides`
    preference  chosen_tokens, chosen_loss_mask, rejected_tokens …: see `sides`

Rejected answers are told apart by `preference` and `default` alone: the others are refused.

Where a dataset has loss weights, every view adds `loss_weights` f32, shifted as its loss is; `lwm`
has them in loss_masks instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np

from dataprep.loaders.expand import Arrays, Request
from dataprep.loaders.packed import Batch, all_of_a_row, name_all, number_of
from dataprep.loaders.schedule import shown
from dataprep.loaders.sides import Preference, Seq2Seq
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.storage.entries import TokenizerEntry
from dataprep.pipeline.storage.masks import MASKS

ViewName = Literal[
    "default",
    "lwm",
    "lwm_bos",
    "maxtext",
    "xlstm",
    "xlstm_unshifted",
    "hf",
    "seq2seq",
    "preference",
]
UserView = Callable[[Batch], Batch]
SidedView = Seq2Seq | Preference

WEIGHTS = MASKS["weight"].array  # as a view has it: 0 where there is no loss
_KINDS = ("tokens", "segments", "positions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The arrays of a view, by name."""

    columns: dict[str, tuple[str, int]]  # (one of _KINDS or the name of a mask, shift)
    modalities: bool = False  # whether every other mask is added, such as vision_mask
    loss: str = "loss"  # which of them is the loss mask
    more_columns: int = 0  # beyond the S of most views
    first_loss: bool = (
        False  # whether the first token of a document has loss if the document says so
    )
    after_eos: str = ""  # the array that is one to the right, after an EOS
    starts_with_bos: str = ""  # the array whose first column is BOS, whatever the row has there
    one_document: tuple[str, ...] = ()  # arrays that are left out where a row has several documents
    finish: Callable[[Batch], Batch] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What to read for some columns, and how to name it."""

    masks: tuple[str, ...]  # of all datasets, `loss` first
    columns: dict[str, tuple[str, int]]  # as a table has them; empty if the view is the user's own
    loss: str = "loss"
    more_columns: int = 0
    first_loss: bool = False
    after_eos: str = ""
    eos: int = 0  # which the array of `after_eos` begins with
    starts_with_bos: str = ""
    bos: int = 0  # which the array of `starts_with_bos` begins with
    finish: Callable[[Batch], Batch] | None = None
    own: UserView | None = None
    whole_rows: bool = False  # it cannot be made of some columns of a row

    def request(self, start: int, width: int, masks: Sequence[str]) -> Request:
        """Return what to read of a dataset with these masks; one that it lacks is all False."""

        if self.own is not None:
            return all_of_a_row(start, width + 1, self.masks, masks)
        # What is one to the right needs the column before, which the first columns do not have.
        back = 1 if self.after_eos and start else 0
        wanted = [
            (k, s if name == self.after_eos else s + back) for name, (k, s) in self.columns.items()
        ]
        shifts = {kind: tuple(s for k, s in wanted if k == kind) for kind in _KINDS}
        found = [(k, number_of(k, masks), s) for k, s in wanted if k not in _KINDS]
        return Request(
            start=start - back,
            width=width,
            first_loss=self.first_loss,
            masks=tuple((number, s) for k, number, s in found if not MASKS[k].is_weight),
            weights=tuple((number, s) for k, number, s in found if MASKS[k].is_weight),
            **shifts,
        )

    def name(self, arrays: Arrays, start: int) -> Batch:
        """Return the arrays of a request by their names; `start`: as it was asked for."""
        if self.own is not None:
            found = self.own(name_all(arrays, self.masks))
            if not isinstance(found, Mapping):
                raise ConfigError(
                    f"the view returned {shown(found)}; it must return a dict of arrays by name"
                )
            return found
        sources: dict[str, Any] = {
            "tokens": iter(arrays.tokens),
            "segments": iter(arrays.segments),
            "positions": iter(arrays.positions),
            "weight": iter(arrays.weights),
        }
        masks = iter(arrays.masks)
        batch = {name: next(sources.get(kind, masks)) for name, (kind, _) in self.columns.items()}
        if self.after_eos and not start:
            array = batch[self.after_eos]
            array[:, 1:] = array[:, :-1]
            array[:, 0] = self.eos
        if self.starts_with_bos and not start:
            batch[self.starts_with_bos][:, 0] = self.bos
        if WEIGHTS in batch:
            batch[WEIGHTS] *= batch[self.loss]
        return self.finish(batch) if self.finish else batch


def _finish_lwm(batch: Batch) -> Batch:
    """LWM multiplies the loss by its masks, so that weights belong there."""
    weights = batch.pop(WEIGHTS, batch["loss_masks"].astype(np.float32))
    return {**batch, "loss_masks": weights}


def _finish_lwm_pad(pad: int, batch: Batch) -> Batch:
    """LWM pads inputs and targets by themselves: what predicts no token is padding, too."""
    is_last = (batch.pop("segments") > 0) & (batch.pop("next_segments") == 0)
    batch["input_tokens"][is_last] = pad
    batch["input_vision_masks"][is_last] = False
    return _finish_lwm(batch)


def _finish_segmented(batch: Batch) -> Batch:
    """MaxText and xlstm-jax have loss where targets have a segment."""
    loss = batch.pop("loss")
    batch["targets_segmentation"] *= loss
    return batch


def _finish_hf(batch: Batch) -> Batch:
    loss = batch.pop("loss")
    np.copyto(batch["labels"], -100, where=~loss)
    if "attention_mask" in batch:
        np.minimum(batch["attention_mask"], 1, out=batch["attention_mask"])
    return batch


# Views that are functions of whole rows.
SIDED: dict[ViewName, Callable[[], SidedView]] = {
    "seq2seq": Seq2Seq,
    "preference": Preference,
}

VIEWS: dict[ViewName, Table] = {
    "default": Table(
        columns={
            "inputs": ("tokens", 0),
            "targets": ("tokens", 1),
            "loss_mask": ("loss", 1),
            "segment_ids": ("segments", 0),
            "positions": ("positions", 0),
        },
        modalities=True,
        loss="loss_mask",
    ),
    "lwm": Table(
        columns={
            "input_tokens": ("tokens", 0),
            "target_tokens": ("tokens", 1),
            "loss_masks": ("loss", 1),
            "input_vision_masks": ("vision", 0),
            "target_vision_masks": ("vision", 1),
        },
        loss="loss_masks",
        finish=_finish_lwm,
    ),
    "maxtext": Table(
        columns={
            "inputs": ("tokens", 0),
            "targets": ("tokens", 1),
            "inputs_position": ("positions", 0),
            "inputs_segmentation": ("segments", 0),
            "targets_position": ("positions", 0),
            "targets_segmentation": ("segments", 1),
            "loss": ("loss", 1),
        },
        finish=_finish_segmented,
    ),
    "xlstm": Table(
        columns={
            "inputs": ("tokens", 0),
            "targets": ("tokens", 0),
            "inputs_position": ("positions", 0),
            "inputs_segmentation": ("segments", 0),
            "targets_position": ("positions", 0),
            "targets_segmentation": ("segments", 0),
            "loss": ("loss", 0),
        },
        more_columns=1,
        first_loss=True,
        after_eos="inputs",
        finish=_finish_segmented,
    ),
    "hf": Table(
        columns={
            "input_ids": ("tokens", 0),
            "attention_mask": ("segments", 0),
            "labels": ("tokens", 0),
            "position_ids": ("positions", 0),
            "loss": ("loss", 0),
        },
        more_columns=1,
        one_document=("attention_mask",),
        finish=_finish_hf,
    ),
}

VIEWS["lwm_bos"] = replace(VIEWS["lwm"], starts_with_bos="input_tokens")
VIEWS["xlstm_unshifted"] = replace(VIEWS["xlstm"], after_eos="")


class Described(Protocol):
    """What a view needs to know of a dataset."""

    @property
    def masks(self) -> tuple[str, ...]: ...
    @property
    def pad(self) -> int: ...
    @property
    def tokenizer(self) -> TokenizerEntry: ...
    @property
    def one_document_a_row(self) -> bool: ...
    @property
    def pads_like_lwm(self) -> bool: ...


def more_columns_of(view: ViewName | UserView) -> int:
    """Return how many columns a view has more than most, which do not have the last token."""
    return VIEWS[view].more_columns if isinstance(view, str) and view in VIEWS else 0


def _table_of(view: ViewName, datasets: Sequence[Described]) -> Table:
    table = VIEWS[view]
    if view not in ("lwm", "lwm_bos") or not all(dataset.pads_like_lwm for dataset in datasets):
        return table
    return replace(
        table,
        columns=table.columns | {"segments": ("segments", 0), "next_segments": ("segments", 1)},
        finish=partial(_finish_lwm_pad, datasets[0].pad),
    )


def make_view(view: ViewName | UserView, datasets: Sequence[Described]) -> View:
    """Return a view of these datasets."""
    masks = tuple(dict.fromkeys(mask for dataset in datasets for mask in dataset.masks))
    if isinstance(view, str) and view in SIDED:
        view = SIDED[view]()
    if isinstance(view, SidedView):
        return View(masks=masks, columns={}, own=view.for_datasets(datasets), whole_rows=True)
    if callable(view):
        return View(masks=masks, columns={}, own=view)
    if view not in tuple(VIEWS):  # which an unhashable one may be asked of, too
        names = ", ".join((*VIEWS, *SIDED))
        raise ConfigError(f"view {view!r} is not one of {names}, nor a function")
    table = _table_of(view, datasets)
    if "rejected" in masks and not table.modalities:
        raise ConfigError(
            f"view {view!r} does not tell which tokens are of rejected answers: these would "
            "be learned as chosen ones are; use view='preference' for pairs, 'default', which has "
            "rejected_mask, or a function of your own"
        )
    bos, eos = datasets[0].tokenizer.bos, datasets[0].tokenizer.eos
    for name, needed, found in (("EOS", table.after_eos, eos), ("BOS", table.starts_with_bos, bos)):
        if needed and found is None:
            raise ConfigError(
                f"view {view!r} begins every row with {name}, but the tokenizer of the datasets "
                "has none; tokenize with one that has, or write a view of your own"
            )
    alone = all(dataset.one_document_a_row for dataset in datasets)
    columns = {k: v for k, v in table.columns.items() if alone or k not in table.one_document}
    if table.modalities:
        others = [mask for mask in masks[1:] if not MASKS[mask].is_weight]
        columns |= {MASKS[mask].array: (mask, 0) for mask in others}
    if "weight" in masks:
        columns[WEIGHTS] = ("weight", table.columns[table.loss][1])
    return View(
        masks=masks,
        columns=columns,
        loss=table.loss,
        more_columns=table.more_columns,
        first_loss=table.first_loss,
        after_eos=table.after_eos,
        eos=eos or 0,
        starts_with_bos=table.starts_with_bos,
        bos=bos or 0,
        finish=table.finish,
    )
