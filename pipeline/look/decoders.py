"""Find the encoder that can decode the codes of a dataset: the one that made them.

    document ─► its source, OUT/shards/….parquet ─► the dataset of codes OUT ─► its encoder

Or an encoder that the user names, for codes that were made elsewhere. Either must match what the
dataset says about its codes; an encoder that only may be the right one decodes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dataprep.configs.encode import EncodeConfig
from dataprep.configs.load import recorded
from dataprep.pipeline.encoders import Encoder, find_encoder, find_weights, open_encoder
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.look.encoded import Encoded, encoded_behind
from dataprep.pipeline.look.inspect import Segment
from dataprep.pipeline.look.media import FindDecoder
from dataprep.pipeline.storage.manifest import EncodedManifest, read_manifest

Behind = Callable[[str, str], dict[str, list[Encoded]]]  # by a source's path and fingerprint

FIX = "name the encoder of these codes: --encoder NAME [--weights FILE] [--set settings.NAME=VALUE]"


def named_decoder(name: str, weights: str | None, settings: Mapping[str, Any]) -> FindDecoder:
    """Return a function that gives the encoder that the user named, for codes of its kind."""
    kind = find_encoder(name).kind
    encoder = open_encoder(name, settings, find_weights(weights, None))

    def find(modality: str, segment: Segment) -> Encoder | str:
        if modality != kind:
            return f"is left out: encoder {name} makes {kind} codes; name another with --encoder"
        _check_fit(encoder, f"encoder {name}", segment, modality)
        return encoder

    return find


def recorded_decoder() -> FindDecoder:
    """Return a function that finds the encoder by where the document came from."""
    opened = cache(_opened)
    behind = cache(lambda path, fingerprint: encoded_behind({path: fingerprint}))

    def find(modality: str, segment: Segment) -> Encoder:
        folder = _made_in(modality, segment, behind)
        encoder = opened(folder)
        _check_fit(encoder, f"the encoder of {folder}", segment, modality)
        return encoder

    return find


def encoder_of(folder: Path) -> Encoder:
    """Return the encoder that made a dataset of codes, for example to decode them."""
    manifest = read_manifest(folder)
    if not isinstance(manifest, EncodedManifest):
        raise ConfigError(f"{folder} is {manifest.kind}, not made by dataprep encode")
    config = recorded(EncodeConfig, manifest.config, folder)
    weights = find_weights(config.weights, None)
    if weights is not None and weights.fingerprint != manifest.encoder.identity.get("weights"):
        raise ConfigError(f"{config.weights} is no longer the file of weights that made {folder}")
    return open_encoder(manifest.encoder.name, config.settings, weights)


def _opened(folder: Path) -> Encoder:
    try:
        return encoder_of(folder)
    except ConfigError as error:
        raise ConfigError(f"the encoder of {folder} cannot be opened: {error}; {FIX}") from None


def _made_in(modality: str, segment: Segment, behind: Behind) -> Path:
    """Return the dataset of codes that the codes of a segment are from."""
    which = f"document {segment.document} of {segment.folder}"
    origin = segment.origin
    found = behind(origin.path, origin.fingerprint).get(modality, [])
    if not found:
        is_gone = "://" not in origin.path and not Path(origin.path).exists()
        why = "which is gone; put it back, or" if is_gone else "not from dataprep encode;"
        raise ConfigError(f"the {modality} codes of {which} are from {origin}, {why} {FIX}")
    if not all(encoded.is_same for encoded in found):
        raise ConfigError(f"{found[0].folder} was made again since {which} was tokenized; {FIX}")
    if any(other.manifest.encoder != found[0].manifest.encoder for other in found):
        places = ", ".join(str(encoded.folder) for encoded in found)
        raise ConfigError(f"the {modality} codes of {which} may be from any of {places}; {FIX}")
    return found[0].folder


def _check_fit(encoder: Encoder, name: str, segment: Segment, modality: str) -> None:
    wanted = segment.blocks[modality].facts
    has = {key: getattr(encoder, key) for key in wanted}
    if has != wanted:
        raise ConfigError(
            f"{name} has {_said(has)}, but {segment.folder} was tokenized with {_said(wanted)}; "
            f"{FIX}"
        )
    if not encoder.can_decode:
        raise ConfigError(f"{name} cannot decode, or its weights hold no decoder; {FIX}")


def _said(shape: Mapping[str, int]) -> str:
    return ", ".join(f"{key} {value}" for key, value in shape.items())
