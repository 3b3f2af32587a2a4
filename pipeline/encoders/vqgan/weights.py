"""The parameters of LWM's VQGAN: their names, their shapes, and the file that holds them.

Names are those of the flax checkpoint, joined by dots: `encoder.Conv_0.kernel`. The file is
safetensors; its shapes define the network, and every tensor is checked against that:

    widths 128 256 256 512 768, two blocks per level, latents of 64, 8192 codes
    ─►  277 tensors, 146,244,675 parameters; 158 and 87,022,659 of them are the decoder's

There is no attention: LWM's network has none at any resolution (its attention block does not even
run). Kernels are [height, width, in, out], all float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import ConfigError

Shape = tuple[int, ...]
Tensors = dict[str, NDArray[np.float32]]
NORM_GROUPS = 32
DECODER = ("decoder.", "post_quant_conv.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    widths: tuple[int, ...]  # channels at each resolution, the finest first
    num_blocks: int  # residual blocks per level in the encoder; the decoder has one more
    latent: int  # channels between encoder and quantizer
    num_codes: int
    code_dim: int
    has_decoder: bool

    @property
    def downsampling(self) -> int:
        return 1 << (len(self.widths) - 1)


LWM = Architecture(
    widths=(128, 256, 256, 512, 768),
    num_blocks=2,
    latent=64,
    num_codes=8192,
    code_dim=64,
    has_decoder=True,
)


def parameter_shapes(network: Architecture) -> dict[str, Shape]:
    """Return the shapes of all parameters of the network, by name."""
    widths, last = network.widths, network.widths[-1]
    shapes: dict[str, Shape] = {
        **_conv("encoder.Conv_0", 3, 3, widths[0]),
        **_middle("encoder", last),
        **_norm("encoder.GroupNorm_0", last),
        **_conv("encoder.Conv_1", 3, last, network.latent),
        **_conv("quant_conv", 1, network.latent, network.code_dim),
        "quantize.embeddings": (network.num_codes, network.code_dim),
    }
    for level, (before, width) in enumerate(pairwise((widths[0], *widths))):
        name = f"encoder.DownsamplingBlock_{level}"
        shapes |= _blocks(name, network.num_blocks, before, width)
        if level < len(widths) - 1:
            shapes |= _conv(f"{name}.Downsample_0.Conv_0", 3, width, width)
    if not network.has_decoder:
        return shapes
    shapes |= {
        **_conv("post_quant_conv", 1, network.code_dim, network.latent),
        **_conv("decoder.Conv_0", 3, network.latent, last),
        **_middle("decoder", last),
        **_norm("decoder.GroupNorm_0", widths[0]),
        **_conv("decoder.Conv_1", 3, widths[0], 3),
    }
    for place, (before, width) in enumerate(pairwise((last, *reversed(widths)))):
        name = f"decoder.UpsamplingBlock_{place}"
        shapes |= _blocks(name, network.num_blocks + 1, before, width)
        if place < len(widths) - 1:
            shapes |= _conv(f"{name}.Upsample_0.Conv_0", 3, width, width)
    return shapes


def _conv(name: str, side: int, before: int, after: int) -> dict[str, Shape]:
    return {f"{name}.kernel": (side, side, before, after), f"{name}.bias": (after,)}


def _norm(name: str, width: int) -> dict[str, Shape]:
    return {f"{name}.scale": (width,), f"{name}.bias": (width,)}


def _residual(name: str, before: int, after: int) -> dict[str, Shape]:
    shapes = {
        **_norm(f"{name}.GroupNorm_0", before),
        **_conv(f"{name}.Conv_0", 3, before, after),
        **_norm(f"{name}.GroupNorm_1", after),
        **_conv(f"{name}.Conv_1", 3, after, after),
    }
    return shapes | (_conv(f"{name}.Conv_2", 1, before, after) if before != after else {})


def _blocks(name: str, count: int, before: int, after: int) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {}
    for i in range(count):
        shapes |= _residual(f"{name}.ResnetBlock_{i}", after if i else before, after)
    return shapes


def _middle(name: str, width: int) -> dict[str, Shape]:
    return _blocks(f"{name}.MidBlock_0", 2, width, width)


def architecture_of(shapes: Mapping[str, Shape], place: str) -> Architecture:
    """Return the network that has these parameters; a ConfigError names one that does not fit."""
    try:
        levels = _count(shapes, "encoder.DownsamplingBlock_{}.ResnetBlock_0.Conv_0.kernel")
        blocks = _count(shapes, "encoder.DownsamplingBlock_0.ResnetBlock_{}.Conv_0.kernel")
        num_codes, code_dim = shapes["quantize.embeddings"]
        network = Architecture(
            widths=tuple(
                shapes[f"encoder.DownsamplingBlock_{i}.ResnetBlock_0.Conv_0.kernel"][3]
                for i in range(levels)
            ),
            num_blocks=blocks,
            latent=shapes["encoder.Conv_1.kernel"][3],
            num_codes=num_codes,
            code_dim=code_dim,
            has_decoder=any(name.startswith(DECODER) for name in shapes),
        )
        expected = parameter_shapes(network)
    except (KeyError, IndexError, ValueError) as error:
        raise ConfigError(
            f"{place} does not hold a VQGAN like LWM's: no usable {error}; convert LWM's "
            "checkpoint with dataprep encode --convert-weights"
        ) from None
    for name in [*expected, *shapes]:
        has, wants = shapes.get(name), expected.get(name)
        if has != wants:
            raise ConfigError(
                f"{place} does not hold a VQGAN like LWM's: {name} is {has or 'missing'}, "
                f"expected {wants or 'no such parameter'}"
            )
    uneven = [width for width in network.widths if width % NORM_GROUPS]
    if uneven:
        raise ConfigError(f"{place}: a width of {uneven[0]} is not a multiple of {NORM_GROUPS}")
    return network


def _count(shapes: Mapping[str, Shape], name: str) -> int:
    count = 0
    while name.format(count) in shapes:
        count += 1
    if not count:
        raise KeyError(name.format(0))
    return count


@contextmanager
def open_weights(path: str) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (OSError, SafetensorError) as error:
        cause = str(error).partition("\n")[0]
        raise ConfigError(f"cannot read weights {path} as safetensors: {cause}") from None


def read_shapes(path: str) -> dict[str, Shape]:
    """Return names and shapes, reading only the head of the file."""
    with open_weights(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        for name, tensor in slices.items():
            if tensor.get_dtype() != "F32":
                raise ConfigError(f"{path}: {name} is {tensor.get_dtype()}, expected F32")
        return {name: tuple(tensor.get_shape()) for name, tensor in slices.items()}


def read_tensors(path: str, names: Iterable[str]) -> Tensors:
    with open_weights(path) as file:
        tensors: Tensors = {name: file.get_tensor(name) for name in names}
    check_finite(tensors, path)
    return tensors


def check_finite(tensors: Tensors, place: str) -> None:
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise ConfigError(f"{place}: {name} holds NaN or infinity, so codes would be arbitrary")


def write_tensors(tensors: Tensors, path: Path) -> None:
    from safetensors.numpy import save

    from dataprep.pipeline.files import write_atomic

    write_atomic(path, save({name: np.ascontiguousarray(t) for name, t in tensors.items()}))
