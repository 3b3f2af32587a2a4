"""Pictures as arrays of floats.

    ImageModality(ImageModalityConfig(height=64, width=64)).process(pixels)
    u8[n, h, w, 3], u16, or floats of 0 to 1   ─►   f32[n, 64, 64, 3], 0 to 1
                                                    normalize=False: -1 to 1

Grey is the brightness (ITU-R BT.601); a picture without alpha is opaque. Augmentation flips half of
the pictures, in training only, as `rngs` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from dataprep.loaders.compat.artifex.processors import BaseProcessor
from dataprep.loaders.schedule import shown, whole_number
from dataprep.pipeline.errors import ConfigError, InputError

_LUMA = (0.299, 0.587, 0.114)
_ROUNDING = 1e-3  # by which computed brightness may miss its range


class ImageRepresentation(Enum):
    RGB = "rgb"
    RGBA = "rgba"
    GRAYSCALE = "grayscale"


_CHANNELS = {
    ImageRepresentation.RGB: 3,
    ImageRepresentation.RGBA: 4,
    ImageRepresentation.GRAYSCALE: 1,
}


@dataclass(frozen=True)
class ImageModalityConfig:
    """Artifex's settings of pictures; `channels` follows from the representation, and `width` is
    the height unless it is set."""

    representation: ImageRepresentation = ImageRepresentation.RGB
    height: int = 64
    width: int | None = None
    channels: int | None = None
    normalize: bool = True
    augmentation: bool = False
    resize_method: Literal["bilinear", "nearest"] = "bilinear"

    def __post_init__(self) -> None:
        if self.width is None:
            object.__setattr__(self, "width", self.height)
        for name in ("height", "width"):
            whole_number(name, getattr(self, name), least=1)
        if not isinstance(self.representation, ImageRepresentation):
            raise ConfigError(
                f"representation must be of ImageRepresentation, got {shown(self.representation)}"
            )
        wanted = _CHANNELS[self.representation]
        if self.channels not in (None, wanted):
            raise ConfigError(
                f"{self.representation.name} has {wanted} channels, not {self.channels}"
            )
        object.__setattr__(self, "channels", wanted)
        if self.resize_method not in ("bilinear", "nearest"):
            raise ConfigError(
                f"resize_method must be bilinear or nearest, got {shown(self.resize_method)}"
            )


class ImageModality(BaseProcessor):
    """Makes pictures of any size ready."""

    name = "image"

    def __init__(self, config: ImageModalityConfig | None = None, *, rngs: Any = None) -> None:
        super().__init__(config or ImageModalityConfig(), rngs=rngs)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        channels = _CHANNELS[self.config.representation]
        return self.config.height, self.config.width or self.config.height, channels

    @property
    def output_shape(self) -> tuple[int, int, int]:
        return self.image_shape

    def process(self, images: Any, *, training: bool = False, key: Any = None) -> jax.Array:
        """Return a picture, or several, as the config says; `key`, of jax or a
        seed, is for augmentation."""
        given = jnp.asarray(images)
        if given.ndim not in (3, 4) or given.shape[-1] not in (1, 3, 4):
            raise InputError(
                f"pictures must be [height, width, channels] or several of them, with 1, 3 or 4 "
                f"channels, got {given.shape}"
            )
        scale = 1
        if jnp.issubdtype(given.dtype, jnp.integer):
            scale = 65535 if given.dtype == jnp.uint16 else 255
        if not isinstance(given, jax.core.Tracer):  # under jit nothing is known of the values
            _check_range(given, scale)
        pixels = given.astype(jnp.float32) / scale
        pixels = _with_channels(pixels, self.config.representation)
        shape = (*pixels.shape[:-3], *self.image_shape)
        pixels = jax.image.resize(pixels, shape, self.config.resize_method)
        pixels = jnp.clip(pixels, 0, 1)
        if self.config.augmentation and training:
            pixels = self._augmented(pixels, key)
        return pixels if self.config.normalize else pixels * 2 - 1

    def postprocess(self, images: Any) -> jax.Array:
        """Return pictures of this range as bytes of pixels."""
        values = jnp.asarray(images)
        values = values if self.config.normalize else (values + 1) / 2
        return jnp.round(jnp.clip(values, 0, 1) * 255).astype(jnp.uint8)

    def _augmented(self, pixels: jax.Array, key: Any) -> jax.Array:
        if key is None and hasattr(self.rngs, "sample"):
            key = self.rngs.sample()
        if key is None:
            raise ConfigError("augmentation needs a key, or rngs that have sample()")
        if not isinstance(key, jax.Array | np.ndarray):  # a seed
            key = jax.random.key(whole_number("key", key))
        flips = jax.random.bernoulli(key, shape=(*pixels.shape[:-3], 1, 1, 1))
        return jnp.where(flips, jnp.flip(pixels, -2), pixels)


def _check_range(pixels: jax.Array, scale: int) -> None:
    if not pixels.size or pixels.dtype in (jnp.bool_, jnp.uint8, jnp.uint16):
        return
    least, most = pixels.min().item(), pixels.max().item()
    if not (least >= -_ROUNDING and most <= scale + _ROUNDING):
        kind, fix = "floats", "255; clip what resizing added"
        if scale > 1:
            kind, fix = "whole numbers", "65535, as floats"
        raise InputError(
            f"pictures of {kind} must be from 0 to {scale}, got {least:g} to {most:g}; "
            f"give bytes, or divide by {fix}"
        )


def _with_channels(pixels: jax.Array, wanted: ImageRepresentation) -> jax.Array:
    """Return pictures with the channels of a representation."""
    has_alpha = pixels.shape[-1] == _CHANNELS[ImageRepresentation.RGBA]
    alpha = pixels[..., 3:] if has_alpha else jnp.ones_like(pixels[..., :1])
    colour = pixels[..., :3] if has_alpha else pixels
    if wanted is ImageRepresentation.GRAYSCALE:
        is_grey = colour.shape[-1] == 1
        return colour if is_grey else (colour * jnp.array(_LUMA)).sum(-1, keepdims=True)
    colour = jnp.broadcast_to(colour, (*colour.shape[:-1], 3))
    return jnp.concatenate([colour, alpha], -1) if wanted is ImageRepresentation.RGBA else colour
