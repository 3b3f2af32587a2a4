"""Find encoders by name: our own, and those of installed packages, through entry points.

A package that has an encoder names an `EncoderSpec` in its pyproject.toml:

    [project.entry-points."dataprep.encoders"]
    magvit = "magvit_for_dataprep:SPEC"

Two encoders with the same name are refused, whichever packages they are from.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dataprep.configs.load import validate
from dataprep.pipeline.encoders import mel, mulaw, patches, stft
from dataprep.pipeline.encoders.interface import Encoder, EncoderSpec, Weights
from dataprep.pipeline.encoders.vqgan import encoder as vqgan
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.guards.extras import how_to_install
from dataprep.pipeline.sources.fingerprint import fingerprint_file

GROUP = "dataprep.encoders"
BUILT_IN: Mapping[str, EncoderSpec] = {
    "patches": patches.SPEC,
    "vqgan": vqgan.SPEC,
    "mulaw": mulaw.SPEC,
    "mel": mel.SPEC,
    "stft": stft.SPEC,
}


def encoder_names() -> list[str]:
    return [*BUILT_IN, *_plugins()]


def find_encoder(name: str) -> EncoderSpec:
    plugins = _plugins()
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name in plugins:
        return _load(plugins[name])
    near = difflib.get_close_matches(name, [*BUILT_IN, *plugins], n=1)
    hint = f"did you mean {near[0]}?" if near else "dataprep encode --list shows all"
    raise ConfigError(f"no encoder called {name!r}; {hint}")


def open_encoder(
    name: str, settings: Mapping[str, Any] | None = None, weights: Weights | None = None
) -> Encoder:
    """Check the settings and return the encoder; nothing heavy is loaded yet."""
    spec = find_encoder(name)
    lacking = missing_packages(spec)
    if lacking:
        fix = how_to_install(spec.extra)
        raise ConfigError(f"encoder {name} needs {', '.join(lacking)}; {fix}")
    if spec.takes_weights and weights is None:
        raise ConfigError(f"encoder {name} needs weights; name their file with --weights")
    if weights is not None and not spec.takes_weights:
        raise ConfigError(f"encoder {name} takes no weights; leave out --weights")
    _refuse_unknown(spec, settings or {})
    values = validate(spec.settings, settings or {}, f"the settings of encoder {name}")
    return spec.open(values, weights)


def _refuse_unknown(spec: EncoderSpec, settings: Mapping[str, Any]) -> None:
    """Raise for a setting that a plugin would pass over: pydantic does, unless told."""
    if "extra" in spec.settings.model_config:
        return
    fields = spec.settings.model_fields
    known = {*fields, *(field.alias for field in fields.values() if field.alias)}
    for key in settings:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
            raise ConfigError(f"encoder {spec.name} has no setting {key!r}; {hint}")


def find_weights(path: str | None, cache_dir: Path | None) -> Weights | None:
    if not path:
        return None
    place = Path(os.path.expanduser(path)).absolute()
    if not place.is_file():
        raise ConfigError(f"--weights {path} is not a file; give the path of a weights file")
    _, fingerprint = fingerprint_file(str(place), cache_dir)
    return Weights(path=str(place), fingerprint=fingerprint)


def missing_packages(spec: EncoderSpec) -> list[str]:
    return [name for name in spec.packages if find_spec(name) is None]


def _plugins() -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = found.get(point.name)
        if other is not None and other == point:
            continue  # the same installation, found twice on the path
        if other is not None or point.name in BUILT_IN:
            first = other.value if other else "dataprep itself"
            raise ConfigError(
                f"two encoders are called {point.name!r}: one from {first} and one from "
                f"{point.value}; uninstall one of the packages"
            )
        found[point.name] = point
    return found


def _load(point: EntryPoint) -> EncoderSpec:
    try:
        spec = point.load()
    except Exception as error:
        raise ConfigError(
            f"encoder {point.name!r} ({point.value}) fails to load: {error!r}"
        ) from error
    if not isinstance(spec, EncoderSpec) or spec.name != point.name:
        raise ConfigError(
            f"encoder {point.name!r} ({point.value}) is not an EncoderSpec of that name; "
            "ask the authors of its package"
        )
    return spec
