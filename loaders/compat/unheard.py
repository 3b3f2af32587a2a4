"""Masks that a trainer does not look at: what they say would be lost without a word.

fields "[q],a*0.5"               half of the loss on a: DataLoader gives loss_weights
objective: {kind: preference}    rejected answers: DataLoader gives rejected_mask

Rows that `dataprep run` packed have a mask wherever a document may come that needs it, though none
may have come: their first rows are looked at, and what they do not show is a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.sources import AnyDataset
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.storage.masks import MASKS

_UNHEARD = {
    "weight": ("loss weights", "all tokens would count alike"),
    "rejected": ("rejected answers", "they would be learned as chosen ones are"),
}
_LOOKED_AT = 256  # rows


def refuse_unheard(datasets: Iterable[AnyDataset], trainer: str) -> None:
    """Raise a ConfigError for a dataset with masks that the trainer would have to hear of; warn of
    one that may have some."""
    for dataset in datasets:
        for mask, (what, so_that) in _UNHEARD.items():
            if mask not in dataset.about.masks:
                continue
            if _marks_any(dataset, mask):
                raise ConfigError(
                    f"{dataset} has {what}, which {trainer} does not look at, so that {so_that}; "
                    f"make it without, or use dataprep.DataLoader, and its {MASKS[mask].array} in "
                    "a loss of your own"
                )
            if isinstance(dataset, PackedDataset) and len(dataset) > _LOOKED_AT:
                warnings.warn(
                    f"the first {_LOOKED_AT} rows of {dataset} have no {what}, but others may, "
                    f"since records can say so: {trainer} does not look at them",
                    stacklevel=2,
                )


def _marks_any(dataset: AnyDataset, mask: str) -> bool:
    """Return whether a dataset has tokens that the mask marks, as far as is known."""
    if not isinstance(dataset, PackedDataset):
        return dataset.about.counts[MASKS[mask].count] > 0
    made = dataset.about.config.get("pack")
    if not isinstance(made, dict) or not made.get("all_masks"):
        return True  # rows have only masks that mark something
    rows = dataset[:_LOOKED_AT]
    return bool((rows["loss_mask"] & (rows[MASKS[mask].array] != MASKS[mask].default)).any())
