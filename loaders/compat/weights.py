"""Loss weights, of which the trainers that have a drop-in here know nothing, but for LWM.

fields "[q],a*0.5"      half of the loss on a: DataLoader has it as loss_weights, MaxText does not
"""

from __future__ import annotations

from collections.abc import Iterable

from dataprep.loaders.sources import AnyDataset
from dataprep.pipeline.errors import ConfigError


def refuse_weights(datasets: Iterable[AnyDataset], trainer: str) -> None:
    """Raise a ConfigError for a dataset with weights, which would be lost without a word."""
    for dataset in datasets:
        if "weight" in dataset.about.masks:
            raise ConfigError(
                f"{dataset} has loss weights, which {trainer} does not look at, so that all tokens "
                "would count alike; tokenize without weights, or use dataprep.DataLoader, and its "
                "loss_weights in a loss of your own"
            )
