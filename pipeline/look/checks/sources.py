"""Check the files that hold the sources of a dataset of many, against what its manifest says."""

from __future__ import annotations

from pathlib import Path

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.storage.entries import ManySources
from dataprep.pipeline.storage.manifest import EncodedManifest, Manifest, TokenizedManifest
from dataprep.pipeline.storage.source_lists import read_sources
from dataprep.pipeline.storage.source_sums import COLUMNS, told, wrong_in_source


def check_sources(folder: Path, manifest: Manifest) -> None:
    """Raise CorruptError unless the sources add up, each and all, and are those of the identity.

    What stands in the manifest itself was checked when it was read.
    """
    said = manifest.sources
    if not isinstance(said, ManySources):
        return
    assert isinstance(manifest, TokenizedManifest | EncodedManifest)
    sums, prints = dict.fromkeys(said.sums, 0), list[str]()
    for source in read_sources(folder, manifest):
        wrong = wrong_in_source(source)
        if wrong:
            raise CorruptError(f"{folder} is damaged: {wrong}; make the dataset again")
        prints.append(source.fingerprint)
        for name in COLUMNS[type(source)]:
            sums[name] += getattr(source, name)
    if sums != said.sums:
        wrong = ", ".join(name for name in sums if sums[name] != said.sums[name])
        raise CorruptError(
            f"the sources of {folder} do not add up to the {wrong} of its manifest; make the "
            "dataset again"
        )
    if manifest.identity.get("sources", told(prints)) != told(prints):
        raise CorruptError(
            f"the sources of {folder} are not those of its identity; make the dataset again"
        )
