"""What a trainer imports: datasets on disk as arrays. Needs none of the offline stack.

    from dataprep.loaders import DataLoader, open_dataset

jax is imported only for a mesh, torch only by `dataprep.loaders.torch`.
"""

from dataprep.loaders.dataset import open_dataset
from dataprep.loaders.documents import TokenizedDataset
from dataprep.loaders.loader import DataLoader
from dataprep.loaders.packed import PackedDataset

__all__ = ["DataLoader", "PackedDataset", "TokenizedDataset", "open_dataset"]
