"""Everything that can be read, as records.

    find_sources    what the user names        -> sources, each with a fingerprint of its content
    split_source    a source                   -> pieces that can be read apart, with their bytes
    read_piece      a piece                    -> batches of records, with line and byte offset
    count_records   a piece                    -> how many records, without decoding them

`datasets` and `pyarrow` are imported where they are needed, not before.
"""

from dataprep.pipeline.sources.find import changed_sources, find_sources
from dataprep.pipeline.sources.npy import row_shape
from dataprep.pipeline.sources.read import count_records, read_piece
from dataprep.pipeline.sources.split import lines_before, split_source

__all__ = [
    "changed_sources",
    "count_records",
    "find_sources",
    "lines_before",
    "read_piece",
    "row_shape",
    "split_source",
]
