"""Tell which medium a file is by the ending of its name.

pictures   .jpg .jpeg .png .webp .bmp .gif .tif .tiff
videos     .mp4 .m4v .mov .mkv .webm .avi .mpg .mpeg
sounds     .wav .flac .ogg .opus .mp3 .aiff
beside     .txt .json with the same name: columns of the record
tar        .tar with all of these, as WebDataset packs them
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

from dataprep.pipeline.sources.tars import PACKED_ENDINGS
from dataprep.pipeline.types import Modality

Medium = Literal["picture", "video", "sound"]

_MEDIA: dict[Medium, tuple[str, ...]] = {
    "picture": (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
    "video": (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg"),
    "sound": (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff"),
}
_BY_ENDING = {ending: medium for medium, endings in _MEDIA.items() for ending in endings}
WANTED: dict[Modality, tuple[Medium, ...]] = {"vision": ("picture", "video"), "audio": ("sound",)}
TEXT, JSON = ".txt", ".json"
TAR = ".tar"


def medium_of(name: str) -> Medium | None:
    """Return the medium of a file by its name; None if it is not a media file.

    >>> medium_of("a/b.JPG"), medium_of("a/b.txt")
    ('picture', None)
    """
    return _BY_ENDING.get(PurePosixPath(name).suffix.lower())


def is_wanted(name: str, kind: Modality) -> bool:
    return medium_of(name) in WANTED[kind]


def is_tar(name: str) -> bool:
    return name.lower().endswith(TAR)


def is_packed_tar(name: str) -> bool:
    return name.lower().endswith(PACKED_ENDINGS)


def stem(name: str) -> str:
    """Return the part of the name that a picture and the files beside it share.

    >>> stem("cats/tom.v2.jpg")
    'cats/tom.v2'
    """
    return name.removesuffix(PurePosixPath(name).suffix)


def endings_of(kind: Modality) -> str:
    return " ".join(ending for medium in WANTED[kind] for ending in _MEDIA[medium])
