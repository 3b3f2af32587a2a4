"""The VQGAN: LWM's names and shapes, the same numbers as plain NumPy, checkpoints read safely."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from dataprep.pipeline.encoders import (
    ImageEncoder,
    convert_checkpoint,
    find_weights,
    frame_size,
    open_encoder,
)
from dataprep.pipeline.encoders.vqgan.network import encode_latents, halve, residual
from dataprep.pipeline.encoders.vqgan.weights import (
    LWM,
    architecture_of,
    parameter_shapes,
    write_tensors,
)
from dataprep.pipeline.errors import ConfigError
from support.vqgan import SMALL, nested, random_tensors

Array = NDArray[np.floating[Any]]


# --- names and shapes ---------------------------------------------------------------------------

# (channels in, channels out) of every residual block of LWM's checkpoint.
RESIDUAL_BLOCKS = {
    "encoder.DownsamplingBlock_0.ResnetBlock_0": (128, 128),
    "encoder.DownsamplingBlock_0.ResnetBlock_1": (128, 128),
    "encoder.DownsamplingBlock_1.ResnetBlock_0": (128, 256),
    "encoder.DownsamplingBlock_1.ResnetBlock_1": (256, 256),
    "encoder.DownsamplingBlock_2.ResnetBlock_0": (256, 256),
    "encoder.DownsamplingBlock_2.ResnetBlock_1": (256, 256),
    "encoder.DownsamplingBlock_3.ResnetBlock_0": (256, 512),
    "encoder.DownsamplingBlock_3.ResnetBlock_1": (512, 512),
    "encoder.DownsamplingBlock_4.ResnetBlock_0": (512, 768),
    "encoder.DownsamplingBlock_4.ResnetBlock_1": (768, 768),
    "encoder.MidBlock_0.ResnetBlock_0": (768, 768),
    "encoder.MidBlock_0.ResnetBlock_1": (768, 768),
    "decoder.MidBlock_0.ResnetBlock_0": (768, 768),
    "decoder.MidBlock_0.ResnetBlock_1": (768, 768),
    "decoder.UpsamplingBlock_0.ResnetBlock_0": (768, 768),
    "decoder.UpsamplingBlock_0.ResnetBlock_1": (768, 768),
    "decoder.UpsamplingBlock_0.ResnetBlock_2": (768, 768),
    "decoder.UpsamplingBlock_1.ResnetBlock_0": (768, 512),
    "decoder.UpsamplingBlock_1.ResnetBlock_1": (512, 512),
    "decoder.UpsamplingBlock_1.ResnetBlock_2": (512, 512),
    "decoder.UpsamplingBlock_2.ResnetBlock_0": (512, 256),
    "decoder.UpsamplingBlock_2.ResnetBlock_1": (256, 256),
    "decoder.UpsamplingBlock_2.ResnetBlock_2": (256, 256),
    "decoder.UpsamplingBlock_3.ResnetBlock_0": (256, 256),
    "decoder.UpsamplingBlock_3.ResnetBlock_1": (256, 256),
    "decoder.UpsamplingBlock_3.ResnetBlock_2": (256, 256),
    "decoder.UpsamplingBlock_4.ResnetBlock_0": (256, 128),
    "decoder.UpsamplingBlock_4.ResnetBlock_1": (128, 128),
    "decoder.UpsamplingBlock_4.ResnetBlock_2": (128, 128),
}
# (side, channels in, channels out) of every convolution outside of those.
CONVOLUTIONS = {
    "encoder.Conv_0": (3, 3, 128),
    "encoder.DownsamplingBlock_0.Downsample_0.Conv_0": (3, 128, 128),
    "encoder.DownsamplingBlock_1.Downsample_0.Conv_0": (3, 256, 256),
    "encoder.DownsamplingBlock_2.Downsample_0.Conv_0": (3, 256, 256),
    "encoder.DownsamplingBlock_3.Downsample_0.Conv_0": (3, 512, 512),
    "encoder.Conv_1": (3, 768, 64),
    "quant_conv": (1, 64, 64),
    "post_quant_conv": (1, 64, 64),
    "decoder.Conv_0": (3, 64, 768),
    "decoder.UpsamplingBlock_0.Upsample_0.Conv_0": (3, 768, 768),
    "decoder.UpsamplingBlock_1.Upsample_0.Conv_0": (3, 512, 512),
    "decoder.UpsamplingBlock_2.Upsample_0.Conv_0": (3, 256, 256),
    "decoder.UpsamplingBlock_3.Upsample_0.Conv_0": (3, 256, 256),
    "decoder.Conv_1": (3, 128, 3),
}


def expected_shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"quantize.embeddings": (8192, 64)}
    convolutions = dict(CONVOLUTIONS)
    norms = {"encoder.GroupNorm_0": 768, "decoder.GroupNorm_0": 128}
    for name, (before, after) in RESIDUAL_BLOCKS.items():
        norms |= {f"{name}.GroupNorm_0": before, f"{name}.GroupNorm_1": after}
        convolutions[f"{name}.Conv_0"] = (3, before, after)
        convolutions[f"{name}.Conv_1"] = (3, after, after)
        if before != after:
            convolutions[f"{name}.Conv_2"] = (1, before, after)
    for name, (side, before, after) in convolutions.items():
        shapes |= {f"{name}.kernel": (side, side, before, after), f"{name}.bias": (after,)}
    for name, width in norms.items():
        shapes |= {f"{name}.scale": (width,), f"{name}.bias": (width,)}
    return shapes


def test_names_and_shapes_are_those_of_lwms_checkpoint() -> None:
    shapes = parameter_shapes(LWM)
    assert shapes == expected_shapes()
    assert len(shapes) == 277
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == 146_244_675


def test_the_shapes_alone_tell_the_network() -> None:
    assert architecture_of(expected_shapes(), "here") == LWM
    without = {k: v for k, v in expected_shapes().items() if "decoder" not in k and "post" not in k}
    found = architecture_of(without, "here")
    assert not found.has_decoder
    assert found.downsampling == 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder.Conv_1.bias": None}, r"encoder.Conv_1.bias is missing, expected \(64,\)"),
        ({"encoder.Conv_1.bias": (65,)}, r"encoder.Conv_1.bias is \(65,\), expected \(64,\)"),
        ({"encoder.extra": (1,)}, r"encoder.extra is \(1,\), expected no such parameter"),
        ({"quantize.embeddings": None}, "quantize.embeddings"),
        ({"decoder.Conv_1.bias": None}, "decoder.Conv_1.bias is missing"),
    ],
)
def test_a_parameter_that_does_not_fit_is_named(
    change: dict[str, tuple[int, ...] | None], message: str
) -> None:
    shapes = {**expected_shapes(), **change}
    with pytest.raises(ConfigError, match=message):
        architecture_of({k: v for k, v in shapes.items() if v is not None}, "w.safetensors")


# --- numbers, by NumPy in float64 ---------------------------------------------------------------


class Plain:
    """The network once more, each layer as a loop over a kernel's places."""

    def __init__(self, tensors: Mapping[str, NDArray[np.float32]]) -> None:
        self.p = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}

    def conv(self, name: str, x: Array, stride: int = 1, pad: tuple[int, int] = (1, 1)) -> Array:
        kernel, bias = self.p[f"{name}.kernel"], self.p[f"{name}.bias"]
        side = len(kernel)
        before, after = pad if side > 1 else (0, 0)
        x = np.pad(x, [(0, 0), (before, after), (before, after), (0, 0)])
        height, width = (x.shape[1] - side) // stride + 1, (x.shape[2] - side) // stride + 1
        y = np.zeros((len(x), height, width, kernel.shape[3]))
        for i in range(side):
            for j in range(side):
                rows = slice(i, i + (height - 1) * stride + 1, stride)
                columns = slice(j, j + (width - 1) * stride + 1, stride)
                y += x[:, rows, columns] @ kernel[i, j]
        return y + bias

    def norm(self, name: str, x: Array) -> Array:
        y = np.empty_like(x)
        size = x.shape[3] // 32
        for group in range(32):
            part = x[..., group * size : (group + 1) * size]
            mean = part.mean(axis=(1, 2, 3), keepdims=True)
            variance = part.var(axis=(1, 2, 3), keepdims=True)
            y[..., group * size : (group + 1) * size] = (part - mean) / np.sqrt(variance + 1e-6)
        return y * self.p[f"{name}.scale"] + self.p[f"{name}.bias"]

    def block(self, name: str, x: Array) -> Array:
        y = self.conv(f"{name}.Conv_0", silu(self.norm(f"{name}.GroupNorm_0", x)))
        y = self.conv(f"{name}.Conv_1", silu(self.norm(f"{name}.GroupNorm_1", y)))
        if f"{name}.Conv_2.kernel" in self.p:
            x = self.conv(f"{name}.Conv_2", x)
        return x + y

    def latents(self, images: NDArray[np.uint8]) -> Array:
        x = self.conv("encoder.Conv_0", images / 127.5 - 1)
        x = self.block("encoder.DownsamplingBlock_0.ResnetBlock_0", x)
        x = self.conv("encoder.DownsamplingBlock_0.Downsample_0.Conv_0", x, 2, (0, 1))
        x = self.block("encoder.DownsamplingBlock_1.ResnetBlock_0", x)
        x = self.conv("encoder.DownsamplingBlock_1.Downsample_0.Conv_0", x, 2, (0, 1))
        x = self.block("encoder.DownsamplingBlock_2.ResnetBlock_0", x)
        x = self.block("encoder.MidBlock_0.ResnetBlock_0", x)
        x = self.block("encoder.MidBlock_0.ResnetBlock_1", x)
        x = self.conv("encoder.Conv_1", silu(self.norm("encoder.GroupNorm_0", x)))
        return self.conv("quant_conv", x)

    def distances(self, images: NDArray[np.uint8]) -> Array:
        flat = self.latents(images).reshape(len(images), -1, 1, 6)
        return cast(Array, ((flat - self.p["quantize.embeddings"]) ** 2).sum(axis=-1))

    def pixels(self, codes: NDArray[np.int32], rows: int = 8) -> Array:
        x = self.p["quantize.embeddings"][codes].reshape(len(codes), rows, -1, 6)
        x = self.conv("decoder.Conv_0", self.conv("post_quant_conv", x))
        x = self.block("decoder.MidBlock_0.ResnetBlock_0", x)
        x = self.block("decoder.MidBlock_0.ResnetBlock_1", x)
        for i in range(3):
            for j in range(2):
                x = self.block(f"decoder.UpsamplingBlock_{i}.ResnetBlock_{j}", x)
            if i < 2:
                x = x.repeat(2, axis=1).repeat(2, axis=2)
                x = self.conv(f"decoder.UpsamplingBlock_{i}.Upsample_0.Conv_0", x)
        x = self.conv("decoder.Conv_1", silu(self.norm("decoder.GroupNorm_0", x)))
        return np.clip(x, -1, 1)


def silu(x: Array) -> Array:
    return cast(Array, x / (1 + np.exp(-x)))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[ImageEncoder, Plain]:
    tensors = random_tensors(SMALL)
    path = tmp_path_factory.mktemp("weights") / "small.safetensors"
    write_tensors(tensors, path)
    weights = find_weights(str(path), None)
    encoder = open_encoder("vqgan", {"size": 32, "batch_size": 3}, weights)
    return cast(ImageEncoder, encoder), Plain(tensors)


@pytest.fixture(scope="module")
def images() -> NDArray[np.uint8]:
    """Smooth and noisy, so that codes differ from place to place."""
    rng = np.random.default_rng(5)
    coarse = rng.integers(0, 256, (3, 4, 4, 3)).repeat(8, axis=1).repeat(8, axis=2)
    return np.clip(coarse + rng.normal(0, 20, coarse.shape), 0, 255).astype(np.uint8)


def test_codes_equal_those_of_numpy(
    small: tuple[ImageEncoder, Plain], images: NDArray[np.uint8]
) -> None:
    encoder, plain = small
    distances = plain.distances(images)
    codes = encoder.encode(images)
    assert codes.shape == (3, 64)
    assert encoder.tokens_per_frame == 64
    assert len(np.unique(codes)) > 10
    nearest, second = np.sort(distances, axis=-1)[..., :2].transpose(2, 0, 1)
    assert (second - nearest).min() > 1e-4, "the seed gives a tie that float32 cannot decide"
    assert (codes == distances.argmin(axis=-1)).all()


def test_latents_are_within_float32_of_numpy(
    small: tuple[ImageEncoder, Plain], images: NDArray[np.uint8]
) -> None:
    import jax

    _, plain = small
    parameters = {name: tensor.astype(np.float32) for name, tensor in plain.p.items()}
    pixels = (images / 127.5 - 1).astype(np.float32)
    found = np.asarray(jax.jit(partial(encode_latents, network=SMALL))(parameters, pixels))
    np.testing.assert_allclose(found, plain.latents(images), atol=2e-4)


def test_a_decoded_picture_is_within_one_level_of_numpys(
    small: tuple[ImageEncoder, Plain], images: NDArray[np.uint8]
) -> None:
    encoder, plain = small
    codes = encoder.encode(images)
    expected = (plain.pixels(codes) + 1) * 127.5
    assert encoder.can_decode
    decoded = encoder.decode(codes)
    assert decoded.shape == images.shape
    assert np.abs(decoded - expected).max() <= 1.01


def test_pictures_that_are_no_squares_are_encoded_and_decoded(tmp_path: Path) -> None:
    tensors = random_tensors(SMALL)
    write_tensors(tensors, tmp_path / "w.safetensors")
    weights = find_weights(str(tmp_path / "w.safetensors"), None)
    encoder: Any = open_encoder("vqgan", {"size": "16x32", "batch_size": 2}, weights)
    images = np.random.default_rng(3).integers(0, 256, (2, 16, 32, 3)).astype(np.uint8)
    codes, plain = encoder.encode(images), Plain(tensors)
    assert (frame_size(encoder), encoder.tokens_per_frame) == ((16, 32), 4 * 8)
    assert (codes == plain.distances(images).argmin(axis=-1)).mean() > 0.95  # ties of float32
    expected = (plain.pixels(codes, rows=4) + 1) * 127.5
    assert encoder.decode(codes).shape == images.shape
    assert np.abs(encoder.decode(codes) - expected).max() <= 1.01


def test_codes_of_a_picture_do_not_depend_on_its_neighbours(
    small: tuple[ImageEncoder, Plain], images: NDArray[np.uint8]
) -> None:
    encoder, _ = small
    assert (encoder.encode(images[::-1].copy()) == encoder.encode(images)[::-1]).all()


def test_a_block_and_a_halving_at_full_width_equal_numpys() -> None:
    name, down = "encoder.DownsamplingBlock_3.ResnetBlock_0", "d"
    shapes = {k: v for k, v in expected_shapes().items() if k.startswith(f"{name}.")}
    shapes |= {"d.kernel": (3, 3, 512, 512), "d.bias": (512,)}
    rng = np.random.default_rng(2)
    tensors = {
        k: (rng.normal(size=v) / (np.sqrt(np.prod(v[:3])) if len(v) == 4 else 1)).astype(np.float32)
        for k, v in shapes.items()
    }
    x = rng.normal(size=(1, 6, 6, 256)).astype(np.float32)
    plain = Plain(tensors)
    wide = plain.block(name, x.astype(np.float64))
    ours = residual(cast(Any, tensors), name, cast(Any, x))
    np.testing.assert_allclose(np.asarray(ours), wide, atol=1e-4)
    smaller = np.asarray(halve(cast(Any, tensors), down, ours))
    assert smaller.shape == (1, 3, 3, 512)
    np.testing.assert_allclose(smaller, plain.conv(down, wide, 2, (0, 1)), atol=1e-4)


def test_the_identity_holds_weights_and_settings(
    small: tuple[ImageEncoder, Plain], tmp_path: Path
) -> None:
    encoder, _ = small
    write_tensors(random_tensors(SMALL, seed=1), tmp_path / "other.safetensors")
    weights = find_weights(str(tmp_path / "other.safetensors"), None)
    other = open_encoder("vqgan", {"size": 32, "batch_size": 3}, weights)
    assert encoder.identity["weights"] != other.identity["weights"]
    assert {k: v for k, v in encoder.identity.items() if k != "weights"} == {
        "encoder": "vqgan",
        "version": 1,
        "size": 32,
        "batch_size": 3,
        "device": "cpu",
    }


def test_a_size_that_cannot_be_halved_is_refused(tmp_path: Path) -> None:
    write_tensors(random_tensors(SMALL), tmp_path / "w.safetensors")
    weights = find_weights(str(tmp_path / "w.safetensors"), None)
    with pytest.raises(ConfigError, match="size 30 is not a multiple of 4"):
        open_encoder("vqgan", {"size": 30}, weights)


def test_weights_without_a_decoder_encode_and_refuse_to_decode(tmp_path: Path) -> None:
    tensors = {
        name: tensor
        for name, tensor in random_tensors(SMALL).items()
        if not name.startswith(("decoder.", "post_quant_conv."))
    }
    write_tensors(tensors, tmp_path / "w.safetensors")
    weights = find_weights(str(tmp_path / "w.safetensors"), None)
    encoder = cast(ImageEncoder, open_encoder("vqgan", {"size": 8}, weights))
    assert not encoder.can_decode
    with pytest.raises(ConfigError, match="has no decoder"):
        encoder.decode(np.zeros((1, 4), np.int32))


def test_a_file_that_is_not_safetensors_is_a_config_error(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"not at all")
    with pytest.raises(ConfigError, match="as safetensors"):
        open_encoder("vqgan", {}, find_weights(str(path), None))


# --- checkpoints --------------------------------------------------------------------------------


def converted(tree: Any, folder: Path, protocol: int = 4) -> dict[str, NDArray[np.float32]]:
    from safetensors.numpy import load_file

    source, target = folder / "vqgan.pkl", folder / "vqgan.safetensors"
    source.write_bytes(pickle.dumps(tree, protocol))
    target.unlink(missing_ok=True)
    convert_checkpoint(source, target)
    return cast(dict[str, NDArray[np.float32]], load_file(target))


@pytest.mark.parametrize("protocol", range(6))
def test_a_checkpoint_of_numpy_arrays_is_converted(tmp_path: Path, protocol: int) -> None:
    tensors = random_tensors(SMALL)
    back = converted(nested(tensors), tmp_path, protocol)
    assert back.keys() == tensors.keys()
    assert all((back[name] == tensors[name]).all() for name in tensors)


def test_the_checkpoints_params_level_is_taken_off(tmp_path: Path) -> None:
    assert "encoder.Conv_0.kernel" in converted({"params": nested(random_tensors(SMALL))}, tmp_path)


def test_a_checkpoint_of_jax_arrays_is_converted(tmp_path: Path) -> None:
    import jax

    tensors = random_tensors(SMALL)
    back = converted(jax.tree.map(jax.numpy.asarray, nested(tensors)), tmp_path)
    assert all((back[name] == tensors[name]).all() for name in tensors)


def test_a_frozen_dict_of_flax_is_read_without_flax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FrozenDict(dict):  # type: ignore[type-arg]
        def __reduce__(self) -> Any:
            return FrozenDict, (dict(self),)

    module = ModuleType("flax.core.frozen_dict")
    FrozenDict.__module__, FrozenDict.__qualname__ = module.__name__, "FrozenDict"
    module.FrozenDict = FrozenDict  # type: ignore[attr-defined]
    for name in ("flax", "flax.core"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert converted(FrozenDict(nested(random_tensors(SMALL))), tmp_path)


class Runs:
    """A pickle that calls a function when it is read the usual way."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize(
    "harm",
    [
        Runs(os.system, "touch harmed"),
        Runs(eval, "open('harmed', 'w')"),
        Runs(np.memmap, "harmed", np.uint8, "w+", 0, (4,)),
        Runs(getattr, "", "join"),
        {"params": {"encoder": [Runs(os.mkdir, "harmed")]}},
        Path("harmed"),
    ],
)
def test_a_pickle_that_names_anything_else_is_refused_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.pkl").write_bytes(pickle.dumps(harm))
    with pytest.raises(ConfigError, match="only arrays and plain containers"):
        convert_checkpoint(Path("bad.pkl"), Path("out.safetensors"))
    assert [path.name for path in tmp_path.iterdir()] == ["bad.pkl"]


def test_an_array_of_another_kind_is_refused(tmp_path: Path) -> None:
    # _reconstruct would make an object of whatever type it is given.
    reconstruct = np.zeros(0).__reduce__()[0]
    data = pickle.dumps(Runs(reconstruct, dict, (0,), b"b"), 2)
    (tmp_path / "bad.pkl").write_bytes(data)
    with pytest.raises(ConfigError, match=r"__builtin__\.dict|unknown kind"):
        convert_checkpoint(tmp_path / "bad.pkl", tmp_path / "out")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([1, 2], "holds a list"),
        ({"a": 1}, "parameter a is int"),
        ({"a": np.array([object])}, "parameter a is object|only arrays"),
        ({"a": np.array([1])}, "parameter a is int64"),
        ({"encoder": {"x": np.zeros(3)}}, "does not hold a VQGAN"),
    ],
)
def test_what_is_no_vqgan_is_refused(tmp_path: Path, tree: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        converted(tree, tmp_path)


def test_a_cut_off_checkpoint_is_a_config_error(tmp_path: Path) -> None:
    data = pickle.dumps(nested(random_tensors(SMALL)))
    (tmp_path / "cut.pkl").write_bytes(data[: len(data) // 2])
    with pytest.raises(ConfigError, match="is not a pickled checkpoint"):
        convert_checkpoint(tmp_path / "cut.pkl", tmp_path / "out")


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    tensors = random_tensors(SMALL)
    tensors["quant_conv.bias"][2] = np.nan
    with pytest.raises(ConfigError, match=r"quant_conv\.bias holds NaN"):
        converted(nested(tensors), tmp_path)


def test_converting_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(b"mine")
    with pytest.raises(ConfigError, match="already exists"):
        convert_checkpoint(tmp_path / "in.pkl", tmp_path / "w")


def test_a_checkpoint_that_holds_itself_or_is_too_deep_is_refused(tmp_path: Path) -> None:
    own: dict[str, Any] = {}
    own["params"] = own
    wide: dict[str, Any] = {}
    for _ in range(40):  # ten to the fortieth leaves
        wide = {str(i): wide for i in range(10)}
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"a": deep}
    for tree, message in ((own, "twice"), (wide, "twice"), (deep, "nested more than")):
        with pytest.raises(ConfigError, match=message):
            converted(tree, tmp_path)


def test_a_checkpoint_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for source in (tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(ConfigError, match="cannot read"):
            convert_checkpoint(source, tmp_path / "out")
