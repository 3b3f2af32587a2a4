"""The config models and how they are loaded."""

from dataprep.configs.encode import EncodeConfig
from dataprep.configs.load import load_config, preset_names
from dataprep.configs.model import (
    AudioConfig,
    InputConfig,
    PackConfig,
    TokenizeConfig,
    VisionConfig,
)

__all__ = [
    "AudioConfig",
    "EncodeConfig",
    "InputConfig",
    "PackConfig",
    "TokenizeConfig",
    "VisionConfig",
    "load_config",
    "preset_names",
]
