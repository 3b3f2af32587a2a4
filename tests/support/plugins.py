"""An encoder of a user's own, installed as pip would do it."""

from __future__ import annotations

from pathlib import Path

PLUGIN = """
import numpy as np
from pydantic import BaseModel
from dataprep.pipeline.encoders import EncoderSpec

class Settings(BaseModel):
    size: int = 8

class Brightness:
    codebook_size, batch_size, max_processes, can_decode = 256, 4, None, False
    tokens_per_frame, environment = 1, {}
    def __init__(self, settings):
        self.size = settings.size
        self.identity = {"encoder": "brightness", "size": self.size}
    def encode(self, images):
        return images.mean(axis=(1, 2, 3)).astype(np.int32)[:, None]

SPEC = EncoderSpec(name="brightness", kind="vision", about="one code a picture",
    settings=Settings, packages=(), extra="", takes_weights=False,
    open=lambda settings, weights: Brightness(settings))
"""


def install_plugin(folder: Path, entry_points: str, package: str = "plug") -> Path:
    """A folder as pip would fill it."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[dataprep.encoders]\n{entry_points}\n")
    (folder / f"{package}_encoder.py").write_text(PLUGIN)
    return folder
