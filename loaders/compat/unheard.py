"""Masks that a trainer does not look at: what they say would be lost without a word.

fields "[q],a*0.5"               half of the loss on a: DataLoader gives loss_weights
objective: {kind: preference}    rejected answers: DataLoader gives rejected_mask
"""

from __future__ import annotations

from collections.abc import Iterable

from dataprep.loaders.sources import AnyDataset
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.storage.masks import MASKS

_UNHEARD = {
    "weight": ("loss weights", "all tokens would count alike"),
    "rejected": ("rejected answers", "they would be learned as chosen ones are"),
}


def refuse_unheard(datasets: Iterable[AnyDataset], trainer: str) -> None:
    """Raise a ConfigError for a dataset with masks that the trainer would have to hear of."""
    for dataset in datasets:
        for mask, (what, so_that) in _UNHEARD.items():
            if mask in dataset.about.masks:
                raise ConfigError(
                    f"{dataset} has {what}, which {trainer} does not look at, so that {so_that}; "
                    f"make it without, or use dataprep.DataLoader, and its {MASKS[mask].array} in "
                    "a loss of your own"
                )
