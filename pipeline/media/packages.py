"""Import the packages that decode media when they are first needed.

needed("soundfile")    the module, or a ConfigError if it is not installed:
                       sounds need soundfile; pip install soundfile soxr
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.guards.extras import how_to_install

# Module: the media that need it, the package, the extra that brings it.
_PACKAGES = {
    "PIL.Image": ("pictures", "PIL", "vision"),
    "av": ("videos", "av", "video"),
    "soundfile": ("sounds", "soundfile", "audio"),
    "soxr": ("sounds with another rate than the encoder's", "soxr", "audio"),
}


def needed(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        media, package, extra = _PACKAGES[module]
        raise ConfigError(f"{media} need {package}; {how_to_install(extra)}") from None
