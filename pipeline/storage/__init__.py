"""Arrays ↔ bytes ↔ manifest: all that a trainer must know of a dataset on disk.

masks         MASKS: loss, vision, audio, weight; runs of equal value
documents     the record of a tokenized dataset: many documents, their masks, an index
rows          the record of a packed dataset: one row of seq_len + 1 tokens
arrayrecord   ArrayRecord files, written and read back
riegeli       where bytes lie in such a file, so that it can be memory-mapped
entries       what a manifest lists, typed
manifest      manifest.json: read, written, checked; kind_of a folder
provenance    where documents and rows came from, as it is stored
"""
