"""OLMo-core, and MaxText's `olmo_grain`: flat files of ids, which are called .npy.

    shards/documents-00000-of-00002.npy    ids, without a header
    masks/documents-00000-of-00002.npy     a byte for each: whether it has loss

It cuts the ids into rows by itself and tells documents apart by EOS.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dataprep.configs.export import ExportConfig
from dataprep.pipeline.export.flat import LOSS, FlatFiles
from dataprep.pipeline.export.format import MAIN, Export, stored_type
from dataprep.pipeline.export.megatron import notes_on_ends
from dataprep.pipeline.storage.kinds import ExportedManifest

ENDINGS = {MAIN: ".npy", LOSS: ".loss.npy"}
FOLDERS = {MAIN: "shards", LOSS: "masks"}


def _name(role: str, number: int, count: int, config: ExportConfig) -> str:
    return f"{FOLDERS[role]}/documents-{number:05d}-of-{count:05d}.npy"


def usage(out: Path, manifest: ExportedManifest) -> Sequence[str]:
    dtype = f"dtype=NumpyDatasetDType.{manifest.token_dtype}"
    places = {"paths": "shards", **({"label_mask_paths": "masks"} if manifest.masks else {})}
    globs = [f"{key}=[{str(out / folder / '*.npy')!r}]" for key, folder in places.items()]
    return [f"NumpyFSLDatasetConfig({', '.join([*globs, 'expand_glob=True', dtype])}, …)"]


OLMO = Export(
    name="olmo",
    kinds=("tokenized",),
    why_not="OLMo-core cuts documents into rows itself: export the tokenized dataset that it was "
    "packed from",
    masks=frozenset({"loss"}),
    endings=ENDINGS,
    only_with={LOSS: "loss"},
    name_of=_name,
    open=FlatFiles,
    token_type=stored_type,
    usage=usage,
    notes=notes_on_ends,
)
