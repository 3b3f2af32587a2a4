"""Datasets of codes as inputs: which encoder made the codes of a file, and what it says of them.

    OUT/shards/codes-00000-of-00004.parquet  ─►  OUT/manifest.json  ─►  kind, frames, codebooks

A dataset of codes may have been made of another, pictures first and then their sound: the codes of
each modality are by the nearest encoder of that kind.

What an encoder says is taken where the config says nothing, and never against it: a frame of
another size, or another codebook, would shift every code after the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from dataprep.configs.load import validate
from dataprep.configs.model import ModalitiesConfig, TokenizeConfig
from dataprep.configs.strict import Model
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.manifest import read_manifest
from dataprep.pipeline.sources.find import dataset_kind
from dataprep.pipeline.types import Source

Files = Mapping[str, str]  # paths, and fingerprints of their content
# Keys of modalities.KIND, and what a manifest calls them.
FACTS: Mapping[str, Mapping[str, str]] = {
    "vision": {"tokens_per_frame": "tokens_per_frame", "codebook_size": "codebook_size"},
    "audio": {"codebooks": "num_codebooks", "codebook_size": "codebook_size"},
}
ENDS = ("end_of_frame", "end_of_media")


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A dataset of codes."""

    folder: Path
    manifest: Mapping[str, Any]
    is_same: bool  # its shards are still those that were read

    @property
    def kind(self) -> str:
        return str(self.manifest["encoder"]["kind"])

    @property
    def name(self) -> str:
        return str(self.manifest["encoder"]["name"])

    @property
    def facts(self) -> dict[str, int]:
        """By the keys of the config."""
        encoder = self.manifest["encoder"]
        return {key: int(encoder[name]) for key, name in FACTS[self.kind].items()}


def encoded_folder(path: str) -> Path | None:
    """The folder of the dataset of codes that a file is a shard of."""
    for place in dict.fromkeys((Path(path), Path(path).resolve())):
        if place.parent.name == "shards" and dataset_kind(str(place.parent.parent)) == "encoded":
            return place.parent.parent
    return None


def encoded_behind(files: Files) -> dict[str, list[Encoded]]:
    """What made the codes in these files: of each kind, the nearest datasets of codes."""
    found: dict[str, list[Encoded]] = {}
    seen: set[Path] = set()
    is_same = True
    while level := [e for e in _encoded(files, is_same) if e.folder not in seen]:
        nearer = set(found)
        for encoded in level:
            if encoded.kind not in nearer:
                found.setdefault(encoded.kind, []).append(encoded)
        seen |= {encoded.folder for encoded in level}
        is_same = all(encoded.is_same for encoded in level)
        files = {s["path"]: s["fingerprint"] for e in level for s in e.manifest["sources"]}
    return found


def _encoded(files: Files, may_be_same: bool) -> list[Encoded]:
    """The datasets of codes that files are shards of, each once."""
    found: dict[Path, Encoded] = {}
    for siblings in _by_parent(files):
        folder = encoded_folder(next(iter(siblings)))
        if folder is not None and folder not in found:
            manifest = read_manifest(folder)
            hashes = {f"xxh3-128:{shard['xxh3_128']}" for shard in manifest["shards"]}
            # Of a table that names files, their hash comes after a plus.
            is_same = all(hash.partition("+")[0] in hashes for hash in siblings.values())
            found[folder] = Encoded(
                folder=folder, manifest=manifest, is_same=is_same and may_be_same
            )
    return list(found.values())


def _by_parent(files: Files) -> list[Files]:
    """Files that may be shards of codes, those of one folder together; one of them tells."""
    groups: dict[tuple[Path, Path], dict[str, str]] = {}
    for path, fingerprint in files.items():
        if path.endswith(".parquet"):
            places = Path(path).parent, Path(path).resolve().parent  # it may be a link
            groups.setdefault(places, {})[path] = fingerprint
    return list(groups.values())


def adopt_encoders(config: TokenizeConfig, sources: Iterable[Source]) -> TokenizeConfig:
    """The config with what the encoders of its sources say of their codes."""
    files = {source.path: source.fingerprint for source in sources}
    behind = [encoded_behind(siblings) for siblings in _by_parent(files)]
    sections: dict[str, Model] = {}
    for kind in FACTS:
        encoded = [item for found in behind for item in found.get(kind, ())]
        if encoded:
            _check_alike(encoded)
            sections[kind] = _adopted(getattr(config.modalities, kind), encoded[0])
    if not sections:
        return config
    modalities = ModalitiesConfig.model_validate({**dict(config.modalities), **sections})
    return config.model_copy(update={"modalities": modalities})


def _check_alike(encoded: list[Encoded]) -> None:
    first = encoded[0]
    for other in encoded[1:]:
        if other.facts != first.facts:
            raise ConfigError(
                f"{first.folder} has {_said(first.facts)}, {other.folder} has "
                f"{_said(other.facts)}; tokenize them apart, pack can put them together"
            )


def _adopted(section: Model, encoded: Encoded) -> Model:
    for key, value in encoded.facts.items():
        mine = getattr(section, key)
        if key in section.model_fields_set and mine != value:
            raise ConfigError(
                f"modalities.{encoded.kind}.{key} is set to {mine}, but the codes of "
                f"{encoded.folder} have {value} (encoder {encoded.name}); leave it unset"
            )
    values = {**section.model_dump(exclude_unset=True), **encoded.facts}
    if encoded.kind == "vision":
        values |= _free_ends(section, encoded.facts["codebook_size"])
    return validate(type(section), values, f"what {encoded.folder} says of its codes")


def _free_ends(section: Model, codebook_size: int) -> dict[str, int]:
    """Ids of frame ends that are no codes, where those that nobody set are: 65536 and 65537."""
    unset = [key for key in ENDS if key not in section.model_fields_set]
    if all(getattr(section, key) >= codebook_size for key in unset):
        return {}
    taken = {getattr(section, key) for key in ENDS if key not in unset}
    free = (number for number in count(codebook_size) if number not in taken)
    return dict(zip(unset, free, strict=False))


def _said(facts: Mapping[str, int]) -> str:
    return " and ".join(f"{key} {value}" for key, value in facts.items())
