"""The config: models, each list of choices once, and how files, flags and --set become one.

base         the strict model; choices that several keys share
tokenize     TokenizeConfig, InputConfig; sections: modalities, encode, pack
modalities   VisionConfig, AudioConfig: codes as blocks of ids
pack         PackConfig
encode       EncodeConfig
load         preset or file  <  --set a.b=c  <  flags
*.yaml       presets: lwm, pretrain, instruct
"""

from dataprep.configs.encode import EncodeConfig
from dataprep.configs.load import load_config, preset_names, recorded
from dataprep.configs.modalities import AudioConfig, ModalitiesConfig, VisionConfig
from dataprep.configs.pack import PackConfig
from dataprep.configs.tokenize import InputConfig, TokenizeConfig

__all__ = [
    "AudioConfig",
    "EncodeConfig",
    "InputConfig",
    "ModalitiesConfig",
    "PackConfig",
    "TokenizeConfig",
    "VisionConfig",
    "load_config",
    "preset_names",
    "recorded",
]
