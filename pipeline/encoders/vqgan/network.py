"""LWM's VQGAN as functions on its parameters (see `weights`), in JAX.

    pictures ─► conv ─► levels: residual blocks, halve ─► middle ─► norm, silu, conv ─► quant_conv
             ─► the nearest of the codebook's vectors

Three things are as in LWM and differ from other VQGANs: halving pads only below and to the right;
there is no attention; a group's variance is E[x²] - E[x]², at least 0. Distances are
|z|² + |e|² - 2 z·e in float32; of equal ones the first wins.

jax is imported inside the functions, so that it is not loaded before an encoder is called. All
arithmetic is float32 (`HIGHEST`), even if a device would use less for a matrix product.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dataprep.pipeline.encoders.vqgan.weights import NORM_GROUPS, Architecture

if TYPE_CHECKING:
    from jax import Array

    Parameters = Mapping[str, Array]

EPSILON = 1e-6


def nearest_codes(parameters: Parameters, pixels: Array, network: Architecture) -> Array:
    """f32[n, S, S, 3] in -1..1 -> i32[n, S/16 · S/16], rows from top to bottom."""
    import jax.numpy as jnp
    from jax import lax

    latents = encode_latents(parameters, pixels, network)
    flat = latents.reshape(-1, network.code_dim)
    vectors = parameters["quantize.embeddings"]
    products = jnp.einsum("bd,nd->bn", flat, vectors, precision=lax.Precision.HIGHEST)
    squares = jnp.sum(flat**2, axis=1, keepdims=True) + jnp.sum(vectors.T**2, axis=0, keepdims=True)
    codes = jnp.argmin(squares - 2 * products, axis=1).astype(jnp.int32)
    return codes.reshape(len(pixels), -1)


def encode_latents(parameters: Parameters, pixels: Array, network: Architecture) -> Array:
    x = conv(parameters, "encoder.Conv_0", pixels)
    for level in range(len(network.widths)):
        name = f"encoder.DownsamplingBlock_{level}"
        for i in range(network.num_blocks):
            x = residual(parameters, f"{name}.ResnetBlock_{i}", x)
        if level < len(network.widths) - 1:
            x = halve(parameters, f"{name}.Downsample_0.Conv_0", x)
    x = _middle(parameters, "encoder.MidBlock_0", x)
    x = conv(parameters, "encoder.Conv_1", norm_silu(parameters, "encoder.GroupNorm_0", x))
    return conv(parameters, "quant_conv", x)


def decode_pixels(
    parameters: Parameters, codes: Array, network: Architecture, grid: tuple[int, int]
) -> Array:
    """i32[n, rows · columns] of a grid -> f32[n, H, W, 3] in -1..1."""
    import jax.numpy as jnp

    x = parameters["quantize.embeddings"][codes].reshape(len(codes), *grid, network.code_dim)
    x = conv(parameters, "decoder.Conv_0", conv(parameters, "post_quant_conv", x))
    x = _middle(parameters, "decoder.MidBlock_0", x)
    for place in range(len(network.widths)):
        name = f"decoder.UpsamplingBlock_{place}"
        for i in range(network.num_blocks + 1):
            x = residual(parameters, f"{name}.ResnetBlock_{i}", x)
        if place < len(network.widths) - 1:
            x = jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)
            x = conv(parameters, f"{name}.Upsample_0.Conv_0", x)
    x = conv(parameters, "decoder.Conv_1", norm_silu(parameters, "decoder.GroupNorm_0", x))
    return jnp.clip(x, -1, 1)


def conv(
    parameters: Parameters, name: str, x: Array, *, stride: int = 1, padding: str = "SAME"
) -> Array:
    from jax import lax

    y = lax.conv_general_dilated(
        x,
        parameters[f"{name}.kernel"],
        (stride, stride),
        padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision=lax.Precision.HIGHEST,
    )
    return y + parameters[f"{name}.bias"]


def norm_silu(parameters: Parameters, name: str, x: Array) -> Array:
    import jax
    import jax.numpy as jnp

    count, height, width, channels = x.shape
    groups = x.reshape(count, height * width, NORM_GROUPS, channels // NORM_GROUPS)
    mean = groups.mean(axis=(1, 3), keepdims=True)
    variance = jnp.maximum((groups**2).mean(axis=(1, 3), keepdims=True) - mean**2, 0)
    scale = parameters[f"{name}.scale"].reshape(NORM_GROUPS, -1)
    shift = parameters[f"{name}.bias"].reshape(NORM_GROUPS, -1)
    y = (groups - mean) * (jax.lax.rsqrt(variance + EPSILON) * scale) + shift
    return jax.nn.silu(y).reshape(x.shape)


def residual(parameters: Parameters, name: str, x: Array) -> Array:
    y = conv(parameters, f"{name}.Conv_0", norm_silu(parameters, f"{name}.GroupNorm_0", x))
    y = conv(parameters, f"{name}.Conv_1", norm_silu(parameters, f"{name}.GroupNorm_1", y))
    shortcut = f"{name}.Conv_2"
    return y + (conv(parameters, shortcut, x) if f"{shortcut}.kernel" in parameters else x)


def halve(parameters: Parameters, name: str, x: Array) -> Array:
    import jax.numpy as jnp

    padded = jnp.pad(x, [(0, 0), (0, 1), (0, 1), (0, 0)])
    return conv(parameters, name, padded, stride=2, padding="VALID")


def _middle(parameters: Parameters, name: str, x: Array) -> Array:
    for i in range(2):
        x = residual(parameters, f"{name}.ResnetBlock_{i}", x)
    return x
