"""Modalities by name.

register_modality("depth", DepthModality)
get_modality("depth")(config)   the class; get_modality("depth", rngs=rngs) makes one
list_modalities()               ['audio', 'depth', 'image', 'text']
"""

from __future__ import annotations

from typing import Any

from dataprep.loaders.compat.artifex.images import ImageModality
from dataprep.loaders.compat.artifex.sounds import AudioModality
from dataprep.loaders.compat.artifex.texts import TextModality
from dataprep.pipeline.errors import ConfigError

_MODALITIES: dict[str, type] = {
    "image": ImageModality,
    "text": TextModality,
    "audio": AudioModality,
}


def register_modality(name: str, modality_class: type) -> None:
    """Add a modality; a name that there is already is an error."""
    if name in _MODALITIES:
        there = _MODALITIES[name]
        raise ConfigError(
            f"modality {name!r} is {there.__module__}.{there.__qualname__} already; choose another "
            "name"
        )
    _MODALITIES[name] = modality_class


def get_modality(name: str, **settings: Any) -> Any:
    """Return the class of a modality, or with settings a modality: Artifex documents the first,
    and its code does the second."""
    if name not in _MODALITIES:
        raise ConfigError(f"no modality {name!r}; there are {', '.join(list_modalities())}")
    found = _MODALITIES[name]
    return found(**settings) if settings else found


def list_modalities() -> list[str]:
    return sorted(_MODALITIES)
