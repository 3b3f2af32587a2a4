"""Pictures brought to a frame of any height and width, in other ways than LWM's."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from dataprep.configs.augment import AugmentConfig
from dataprep.pipeline.media import Framing
from dataprep.pipeline.media.augment import Alteration, alteration_of
from dataprep.pipeline.media.pictures import to_frame
from support.media import picture


@pytest.mark.parametrize("size", [(300, 200), (200, 300), (64, 64), (33, 90), (128, 64), (10, 300)])
@pytest.mark.parametrize("frame", [(32, 64), (64, 32), (48, 48), (7, 31)])
def test_a_picture_covers_a_frame_of_any_shape_and_is_cut_at_the_centre(
    size: tuple[int, int], frame: tuple[int, int]
) -> None:
    image, (height, width) = picture(*size), frame
    found = to_frame(image, Framing(height=height, width=width))
    scale = max(width / size[0], height / size[1])
    scaled = image.resize((max(width, int(size[0] * scale)), max(height, int(size[1] * scale))))
    left, top = round((scaled.width - width) / 2), round((scaled.height - height) / 2)
    assert found.shape == (height, width, 3)
    assert (found == np.array(scaled.crop((left, top, left + width, top + height)))).all()


@pytest.mark.parametrize("method", ["bicubic", "bilinear", "nearest"])
def test_pictures_are_stretched_by_the_method_that_is_asked_for(method: str) -> None:
    image = picture(100, 40)
    found = to_frame(image, Framing(height=16, width=24, resize=method, fit="stretch"))  # type: ignore[arg-type]
    assert (found == np.array(image.resize((24, 16), Image.Resampling[method.upper()]))).all()


def test_grey_is_pillows_luma_in_all_three_channels() -> None:
    image = picture(32, 32)
    found = to_frame(image, Framing(height=32, width=32, grayscale=True))
    assert (found == np.array(image.convert("L"))[..., None]).all()


@pytest.mark.parametrize(
    ("colour", "expected"), [("white", (255,) * 3), ("black", (0,) * 3), ("#10ff20", (16, 255, 32))]
)
def test_transparent_pixels_show_the_background(
    colour: str, expected: tuple[int, int, int]
) -> None:
    pixels = np.zeros((8, 8, 4), np.uint8)
    pixels[:4] = (200, 100, 50, 255)
    pixels[4:6] = (200, 100, 50, 128)
    framing = Framing(height=8, width=8, background=colour)
    found = to_frame(Image.fromarray(pixels, "RGBA"), framing)
    assert (found[:4] == (200, 100, 50)).all()
    assert (found[6:] == expected).all()
    mixed = [
        round((a * 128 + b * 127) / 255) for a, b in zip((200, 100, 50), expected, strict=True)
    ]
    assert np.abs(found[4:6].astype(int) - mixed).max() <= 1


@pytest.mark.parametrize("mode", ["RGB", "L", "LA", "P", "CMYK", "1"])
def test_a_background_changes_nothing_where_nothing_is_transparent(mode: str) -> None:
    image, plain = picture(32, 32, mode=mode), Framing(height=32, width=32)
    seen = to_frame(image, Framing(height=32, width=32, background="#123456"))
    assert (seen == to_frame(image, plain)).all()


def test_a_palette_with_a_transparent_colour_shows_the_background() -> None:
    image = Image.new("P", (8, 8), 1)
    image.putpalette([9, 9, 9, 200, 0, 0])
    image.info["transparency"] = 1
    found = to_frame(image, Framing(height=8, width=8, background="white"))
    assert (found == 255).all()


# --- augmentation -------------------------------------------------------------------------------

ALL = AugmentConfig(
    flip=0.5, flip_vertical=0.5, crop=0.5, brightness=0.3, contrast=0.3, saturation=0.3
)


def changed(config: AugmentConfig, name: str = "a.png", variant: int = 1) -> Alteration:
    found = alteration_of(config, name, variant)
    assert found is not None
    return found


def test_a_change_follows_from_seed_name_and_variant_alone() -> None:
    assert changed(ALL) == changed(ALL)
    others = {
        changed(ALL.model_copy(update={"seed": 1})),
        changed(ALL, "b.png"),
        changed(ALL, variant=2),
        changed(ALL),
    }
    assert len(others) == 4
    # By hand, once: another machine, another version of numpy or of Python must give the same.
    assert changed(ALL) == Alteration(**KNOWN)


KNOWN = {
    "flip": False,
    "flip_vertical": True,
    "share": 55882,
    "left": 928327483654643299,
    "top": 2825290970594517168,
    "brightness": 80808,
    "contrast": 66916,
    "saturation": 83113,
}


def test_variant_0_is_the_picture_itself() -> None:
    assert alteration_of(ALL, "a.png", 0) is None


def test_one_setting_does_not_move_the_others() -> None:
    one = changed(AugmentConfig(flip=0.5, brightness=0.3))
    assert (one.flip, one.brightness) == (changed(ALL).flip, changed(ALL).brightness)
    assert not one.crops


@pytest.mark.parametrize("size", [(60, 40), (40, 60), (3, 90), (1, 1)])
@pytest.mark.parametrize("fit", ["crop", "stretch"])
def test_a_crop_has_the_shape_of_the_frame_and_at_least_the_share(
    size: tuple[int, int], fit: str
) -> None:
    seen = set()
    for variant in range(1, 60):
        alteration = changed(AugmentConfig(crop=0.5), variant=variant)
        aspect = (2, 1) if fit == "crop" else size
        left, top, right, bottom = alteration.box(size, aspect)
        assert 0 <= left < right <= size[0]
        assert 0 <= top < bottom <= size[1]
        whole = min(size[0], size[1] * aspect[0] // aspect[1])
        assert right - left >= max(1, int(whole * 0.5) - 1)
        seen.add((left, top, right, bottom))
    assert len(seen) > 5 or max(size) < 60


def test_pixels_are_changed_by_the_formula() -> None:
    """Against float64, to the last bit but where a value lies halfway."""
    pixels = np.asarray(picture(32, 24))
    plain = {"flip": False, "flip_vertical": False, "share": 1 << 16, "left": 0, "top": 0}
    same = {"brightness": 1 << 16, "contrast": 1 << 16, "saturation": 1 << 16}
    assert (Alteration(**plain, **same).of_pixels(pixels) == pixels).all()
    flipped = Alteration(**{**plain, "flip": True, "flip_vertical": True}, **same).of_pixels(pixels)
    assert (flipped == pixels[::-1, ::-1]).all()
    grey = pixels @ np.array([0.299, 0.587, 0.114])
    formulas = {
        "brightness": lambda f: pixels * f,
        "contrast": lambda f: (pixels - grey.mean()) * f + grey.mean(),
        "saturation": lambda f: (pixels - grey[..., None]) * f + grey[..., None],
    }
    for name, formula in formulas.items():
        for factor in (0.5, 0.9, 1.25):
            alteration = Alteration(**plain, **{**same, name: round(factor * (1 << 16))})
            found, expected = alteration.of_pixels(pixels), np.clip(formula(factor), 0, 255)
            assert found.dtype == np.uint8
            assert np.abs(found - expected).max() <= (0.51 if name == "brightness" else 1.3)


def test_rates_are_kept() -> None:
    config = AugmentConfig(flip=0.25, brightness=0.2)
    drawn = [changed(config, f"{i}.png") for i in range(2000)]
    assert 0.2 < np.mean([alteration.flip for alteration in drawn]) < 0.3
    factors = np.array([alteration.brightness for alteration in drawn]) / (1 << 16)
    assert factors.min() >= 0.8 - 1e-4
    assert factors.max() <= 1.2 + 1e-4
    assert abs(factors.mean() - 1) < 0.02
