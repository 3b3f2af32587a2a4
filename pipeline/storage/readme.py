"""What a dataset says to who opens its folder, and to `datasets.load_dataset`.

A folder without a card is searched for files of known endings, and `load_dataset` would take the
manifest for a dataset of one row. The card names files that are not there, so that it ends with an
error that names them, and says what to do.
"""

from __future__ import annotations

README = "README.md"
README_TEXT = """\
---
configs:
- config_name: dataprep
  data_files: "(shards of dataprep; open them with dataprep.open_dataset, or export them to hf)"
---

# A dataset of dataprep

`manifest.json` says what is in it and how it was made; `shards/` holds ArrayRecord files.

    dataprep inspect DIR        look at it
    dataprep verify DIR         check every byte of it
    dataprep export DIR --to hf --out OUT    write what datasets.load_dataset reads

    from dataprep.loaders import DataLoader, open_dataset

    open_dataset("DIR")[0]      # NumPy arrays of one document, or of one packed row
"""
RUN_TEXT = """\
---
configs:
- config_name: dataprep
  data_files: "(datasets of dataprep; export one of those below this folder to hf)"
---

# What dataprep run has made

Folders below that have a `manifest.json` are datasets; `summary.json` says what the last run did.

    dataprep verify DIR         check every byte of all of them
    dataprep log DIR            when what came, and why
    dataprep export DIR/CORPUS/tokenized --to hf --out OUT    write what datasets.load_dataset reads
"""
EXPORT_TEXT = """\
---
configs:
- config_name: dataprep
  data_files: "(files of {format}, which datasets cannot load; export the dataset to hf for that)"
---

# A dataset for {format}

{records:,} records, {tokens:,} tokens, exported by dataprep. `manifest.json` has the hash of every
file and the fingerprint of the dataset that they were made from.

    dataprep verify DIR         check every byte of it
"""
