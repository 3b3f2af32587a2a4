"""The encoder `vqgan`: pictures of 256x256 to 16x16 codes of 0..8191, with LWM's trained weights.

Weights come from a safetensors file (`dataprep encode --convert-weights` makes it from LWM's
checkpoint); their shapes define the network. jax and the weights are loaded on the first call.

On a CPU every worker is a process with one thread, which is as fast as one process with all threads
and keeps the order of every sum: codes do not depend on workers or cores. On a GPU or TPU one
process feeds the device, with threads that decode pictures ahead of it. A latent that lies halfway
between two vectors can fall to either side on different kinds of machines, so the device is part of
the identity, as is the batch size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dataprep.configs.base import Model
from dataprep.pipeline.encoders.interface import Codes, EncoderSpec, Images, Weights
from dataprep.pipeline.encoders.sizes import Size, sides
from dataprep.pipeline.encoders.vqgan.network import decode_pixels, nearest_codes
from dataprep.pipeline.encoders.vqgan.weights import (
    DECODER,
    architecture_of,
    parameter_shapes,
    read_shapes,
    read_tensors,
)
from dataprep.pipeline.errors import ConfigError

Call = Callable[[NDArray[Any]], Any]

VERSION = 1  # raise it when the codes of a picture change


class VqganSettings(Model):
    size: Size = Field(
        256, description="side of the picture in pixels, or HEIGHTxWIDTH; LWM's is 256"
    )
    batch_size: int = Field(2, ge=1, description="pictures per call; use more for a GPU")
    device: Literal["cpu", "gpu", "tpu"] = Field("cpu", description="what jax computes on")


class Vqgan:
    def __init__(self, settings: VqganSettings, weights: Weights) -> None:
        self._settings = settings
        self._weights = weights
        self.network = architecture_of(read_shapes(weights.path), weights.path)
        self.size = sides(settings.size)
        if any(side % self.network.downsampling for side in self.size):
            raise ConfigError(
                f"settings.size {settings.size} is not a multiple of {self.network.downsampling}, "
                "the factor by which this network makes pictures smaller"
            )
        down, across = (side // self.network.downsampling for side in self.size)
        self._grid = down, across
        self.batch_size = settings.batch_size
        self.codebook_size = self.network.num_codes
        self.tokens_per_frame = down * across
        self.can_decode = self.network.has_decoder
        self.identity: Mapping[str, Any] = {
            "encoder": "vqgan",
            "version": VERSION,
            "weights": weights.fingerprint,
            **settings.model_dump(),
        }

    @property
    def max_processes(self) -> int | None:
        return None if self._settings.device == "cpu" else 1

    @property
    def environment(self) -> Mapping[str, str]:
        if self._settings.device != "cpu":
            return {}
        # jax uses as many threads as NPROC says; without it, as many as there are cores.
        return {"JAX_PLATFORMS": "cpu", "NPROC": "1"}

    def encode(self, images: Images, /) -> Codes:
        # Computed here and not on the device, to get exactly the numbers of LWM's NumPy code.
        pixels = images.astype(np.float32) / np.float32(127.5) - np.float32(1)
        return np.asarray(self._encode(pixels))

    def decode(self, codes: Codes, /) -> Images:
        if not self.can_decode:
            raise ConfigError(f"{self._weights.path} has no decoder, so codes cannot be shown")
        return ((np.asarray(self._decode(codes)) + 1) * np.float32(127.5)).astype(np.uint8)

    @cached_property
    def _encode(self) -> Call:
        return self._compile(nearest_codes, ("encoder.", "quant_conv.", "quantize."))

    @cached_property
    def _decode(self) -> Call:
        decode = partial(decode_pixels, grid=self._grid)
        return self._compile(decode, (*DECODER, "quantize."))

    def _compile(self, function: Callable[..., Any], prefixes: tuple[str, ...]) -> Call:
        import jax

        try:
            device = jax.devices(self._settings.device)[0]
        except RuntimeError as error:
            raise ConfigError(
                f"jax finds no {self._settings.device}: {error}; install jax for it, "
                "or use --set settings.device=cpu"
            ) from None
        wanted = [name for name in parameter_shapes(self.network) if name.startswith(prefixes)]
        parameters = jax.device_put(read_tensors(self._weights.path, wanted), device)
        call = jax.jit(partial(function, network=self.network))

        def run(array: NDArray[Any]) -> Any:
            return call(parameters, jax.device_put(array, device))

        return run


def _open(settings: VqganSettings, weights: Weights | None) -> Vqgan:
    assert weights is not None
    return Vqgan(settings, weights)


SPEC = EncoderSpec(
    name="vqgan",
    kind="vision",
    about="LWM's VQGAN in JAX, 256x256 to 16x16 codes of 8192; needs --weights",
    settings=VqganSettings,
    packages=("PIL", "jax", "safetensors"),
    extra="vqgan",
    takes_weights=True,
    open=_open,
)
