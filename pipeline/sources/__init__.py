"""Read any source as records.

    find_sources    what the user names        -> sources, each with a fingerprint of its content
    all_files       a source                   -> its files, mostly one
    split_source    a source                   -> pieces that can be read apart, with their bytes
    read_piece      a piece                    -> batches of records, with line and byte offset
    read_source     a source                   -> the same for all its pieces
    count_records   a piece                    -> how many records, without decoding them
    lines_before    a piece                    -> the lines of its source before it
    content_bytes   a source                   -> how much it holds, about, if it is compressed
    format_of       the kind of a source       -> its format, which knows its unit, its schema …

What is inside, in the order of the data:

    find (patterns)  endings  remote  hub (reached)   names to sources; left_out: what is not read
    bucket_files                               s3://, gs://, az://: listed, and read by ranges
    tail                                       what is new in a file that was appended to
    stdin  memory (spools)                     kept in files, so that they are sources like others
    media_files                                pixels ─► PNG, samples ─► WAV
    fingerprint                                of the content, for identities; changed since then
    encoded  exports                           datasets of ours, checked against their manifest
    makers                                     which encoder made a column of codes
    listed  tfds  wholes                       folders that list files; sources of several
    known ─► format (plugins)                  FORMATS, the table; what an entry is
      json/formats  text  csv (csv_rows)       stream ─► lines, json/array … ─► blocks ─► records
        decompress  content                    .gz .zst .xz .bz2 ─► stream; how much is in them
      parquet  arrow                           row groups, record batches ─► tables ─► records
        parquet_bounds  arrow_messages         what they may become, before they are read
        table_columns  sizes                   which columns are read; of rows, before they are made
      npy  streamed  synthetic                 rows
      webdataset                               tars ─► bundles ─► members ─► records
      arrayrecords  mds                        forms ─► blobs: bytes of a record ─► records
      megatron  datatrove  flat (flat_hints)   token_files: nothing but ids
    split (cuts)  read (batches)               what others call, and what formats share
    keys                                       which keys of a record are read, and which needed
    reasons  npy_header                        why a record is bad; the header of an .npy
    growth  guarded                            what stored bytes may grow to; local files of URLs

`datasets` and `pyarrow` are imported where they are needed, not before.
"""

from dataprep.pipeline.sources.changed import changed_sources
from dataprep.pipeline.sources.content import content_bytes
from dataprep.pipeline.sources.find import find_sources
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.known import format_of
from dataprep.pipeline.sources.left_out import list_left_out
from dataprep.pipeline.sources.read import count_records, read_piece, read_source
from dataprep.pipeline.sources.split import lines_before, split_source
from dataprep.pipeline.sources.spools import Spools
from dataprep.pipeline.sources.stdin import spooled
from dataprep.pipeline.sources.wholes import all_files

__all__ = [
    "Keys",
    "Spools",
    "all_files",
    "changed_sources",
    "content_bytes",
    "count_records",
    "find_sources",
    "format_of",
    "lines_before",
    "list_left_out",
    "read_piece",
    "read_source",
    "split_source",
    "spooled",
]
