"""The section `encode.augment`: pictures changed at random, once for each variant that is written.

augment: {variants: 4, original: true, seed: 1, flip: 0.5, crop: 0.8, brightness: 0.2}
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dataprep.configs.base import Model

Rate = Annotated[float, Field(ge=0, le=1)]


class AugmentConfig(Model):
    """How pictures are changed at random; every choice follows from (seed, picture, variant)."""

    variants: int = Field(
        1, ge=1, le=1 << 16, description="records that are made of a picture, each changed anew"
    )
    original: bool = Field(
        False, description="also make a record of the unchanged picture, as variant 0"
    )
    seed: int = Field(0, ge=0, lt=1 << 63, description="another seed changes pictures otherwise")
    flip: Rate = Field(0, description="how many of them are mirrored left to right")
    flip_vertical: Rate = Field(0, description="how many of them are turned upside down")
    crop: float = Field(
        1,
        gt=0,
        le=1,
        description="least share of width and height that is kept, from a random place; 1: all",
    )
    brightness: Rate = Field(0, description="0.2: times 0.8 to 1.2")
    contrast: Rate = Field(0, description="0.2: differences from the mean times 0.8 to 1.2")
    saturation: Rate = Field(0, description="0.2: differences from grey times 0.8 to 1.2")

    @property
    def numbers(self) -> range:
        """The numbers of the variants; 0 is the unchanged picture."""
        return range(0 if self.original else 1, self.variants + 1)
