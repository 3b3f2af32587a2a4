"""What a trainer imports: datasets on disk as arrays. Needs none of the offline stack."""

from dataprep.loaders.dataset import TokenizedDataset, open_dataset

__all__ = ["TokenizedDataset", "open_dataset"]
