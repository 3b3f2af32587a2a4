"""Arrays ↔ bytes ↔ manifest: all that a trainer must know about a dataset on disk.

masks         MASKS: loss, vision, audio, encoder, rejected, weight, turns; runs of equal value
turns         whose turn of a conversation a token is in, as values of that mask
keys          hashes of documents: equal content, and what belongs together
documents     a record of a tokenized dataset: many documents, their masks, an index
rows          a record of a packed dataset: one row of seq_len + 1 tokens
arrayrecord   ArrayRecord files, written and read back
riegeli       where the bytes are in such a file, so that it can be memory-mapped
compiled      functions that numba compiles
entries       the typed entries of a manifest
kinds         the kinds of manifest, of these entries
source_sums   what a manifest says of its sources: all of them, or of many the sums
exported      what must go together in that of an export
agreed_sources  what must go together in what it says of its sources
agreement     what must go together in a manifest
manifest      manifest.json: read, written, checked; kind_of a folder
parts         datasets that grow: generations, and the parts that they consist of
source_lists  the sources of a dataset, wherever they stand
joined        the manifests of parts ─► that of the whole
places        folders that users name as datasets, and cannot mean
objects/      one door to object stores; fetched: datasets that are brought from there
alike         whether the ids of two datasets mean the same
parquet       the columns of a shard of codes
checked       files that are what the manifest lists: sizes, hashes, arrays
in_order      all records of a shard, read and hashed once
apart         long sequences that stand in several files, read when they are needed
provenance    how it is stored where documents and rows came from
origins       file and line of every document, as runs; the media behind rows of codes
foreign/      arrays ↔ bytes of other trainers' formats, for exports and imports
reasons       why records are bad, counted
readme        the card of a folder, which keeps `datasets` from taking the manifest for data
"""
