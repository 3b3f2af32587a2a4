"""Pictures, videos and sounds as they come: what is read, brought to what size, what is bad."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image, features

from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.media import (
    Item,
    PictureRules,
    decode_item,
    find_media,
)
from dataprep.pipeline.media.listing import list_tar
from dataprep.pipeline.media.pictures import open_picture
from dataprep.pipeline.media.values import Surroundings, parts_of
from dataprep.pipeline.media.video import is_video
from support.media import FRAME, RULES, decode, encoded, items_of, picture, to_square
from support.packed import write_packed

# --- pictures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size", [(300, 200), (200, 300), (257, 255), (64, 64), (32, 500), (33, 90)]
)
def test_a_picture_is_resized_and_cropped_as_lwm_does(size: tuple[int, int]) -> None:
    image = picture(*size)
    width, height = image.size
    if width < height:
        new_width, new_height = 32, int(32 * height / width)
    else:
        new_width, new_height = int(32 * width / height), 32
    resized = image.resize((new_width, new_height))
    box = ((new_width - 32) / 2, (new_height - 32) / 2, (new_width + 32) / 2, (new_height + 32) / 2)
    assert (to_square(image, 32) == np.array(resized.crop(box))).all()


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "CMYK", "1"])
def test_every_mode_becomes_rgb(mode: str) -> None:
    image = picture(32, 32, mode=mode)
    square = to_square(image, 32)
    assert square.shape == (32, 32, 3)
    assert (square == np.array(image.convert("RGB"))).all()


def test_exif_turns_a_picture_only_when_asked() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    image = open_picture(encoded(picture(32, 32), "JPEG", exif=exif))
    plain = to_square(image, 32)
    assert (to_square(image, 32, exif_rotate=True) == np.rot90(plain, -1)).all()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"no picture at all", "not a picture of a known kind"),
        (encoded(picture(), "JPEG")[:-200], "cannot be read as a picture: .*truncated"),
        (encoded(picture())[:-40], "cannot be read as a picture"),
        (encoded(Image.fromarray(np.zeros((4, 4), np.uint16))), "more than 8 bits per channel"),
        (encoded(picture(1, 4000)), "is 1x4000, but one side may be at most 1024 times"),
    ],
)
def test_a_bad_picture_has_a_reason(data: bytes, reason: str) -> None:
    decoded = decode(data)
    assert not decoded.frames
    assert re.search(reason, decoded.reason)


KINDS = ["JPEG", "MPO", "PNG", "WEBP", "BMP", "GIF", "TIFF", "AVIF"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_of_a_known_kind_is_read(kind: str) -> None:
    if kind == "AVIF" and not features.check("avif"):
        pytest.skip("this Pillow has no AVIF")
    assert open_picture(encoded(picture(32, 32), kind)).size == (32, 32)


@pytest.mark.parametrize("kind", ["EPS", "PDF", "PCX", "TGA", "ICO", "PPM", "SGI", "XBM"])
def test_no_other_kind_of_picture_is_opened_and_no_program_is_run(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "gs"  # Pillow runs Ghostscript for EPS
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    image = picture(32, 32, mode="1") if kind == "XBM" else picture(32, 32)
    assert decode(encoded(image, kind)).reason == "is not a picture of a known kind"
    assert not (tmp_path / "ran").exists()


def test_a_picture_that_is_decoded_already_is_taken_as_it_is() -> None:
    # as `datasets` streams them
    image = Image.open(io.BytesIO(encoded(picture())))
    (part,) = parts_of(image, Surroundings(folder=None))
    item = Item(line=0, source="a", file="a", num_bytes=0, parts=[part])
    assert (next(iter(decode_item(item, RULES).frames)) == to_square(picture(), 32)).all()
    broken = Image.open(io.BytesIO(encoded(picture(), "JPEG")[:-200]))
    item = Item(line=0, source="a", file="a", num_bytes=0, parts=[broken])
    assert "truncated" in decode_item(item, RULES).reason


# --- columns of tables --------------------------------------------------------------------------


def test_bytes_structs_base64_data_urls_and_paths_all_lead_to_the_picture(tmp_path: Path) -> None:
    data = encoded(picture())
    (tmp_path / "a.png").write_bytes(data)
    text = base64.b64encode(data).decode()
    values = [
        data,
        {"bytes": data, "path": None},
        text,
        f"data:image/png;base64,{text}",
        "a.png",
        str(tmp_path / "a.png"),
    ]
    for value in values:
        (part,) = parts_of(value, Surroundings(folder=str(tmp_path)))
        assert part.read() == data
    assert len(parts_of(values, Surroundings(folder=str(tmp_path)))) == len(values)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "is null"),
        (7, "is int"),
        ([], "is an empty list"),
        ([["a.png"]], "is a nested list"),
        ({"bytes": None, "path": "x.png"}, "holds no bytes"),
        ("neither a path nor", "neither a path with an ending nor base64"),
        ("", "neither a path"),
        ("data:image/png,xx", "not base64"),
    ],
)
def test_a_value_that_is_no_picture_has_a_reason(value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parts_of(value, Surroundings(folder="/"))


def test_a_path_in_a_table_that_is_not_local_is_refused() -> None:
    with pytest.raises(ValueError, match="only a local table"):
        parts_of("a.png", Surroundings(folder=None))


# --- folders and tars ---------------------------------------------------------------------------


def write_folder(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "sub").mkdir()
    (folder / "sub" / ".hidden.png").write_bytes(b"")
    for i, name in enumerate(["b.png", "sub/a.v2.jpg", "c.PNG"]):
        (folder / name).write_bytes(encoded(picture(seed=i)))
    (folder / "b.txt").write_text("a caption\n")
    (folder / "b.json").write_text(json.dumps({"id": 7, "tags": ["x"]}))
    (folder / "sub" / "a.v2.txt").write_text("two\nlines")
    (folder / "README.txt").write_text("not a caption")
    return folder


def test_a_folder_gives_its_pictures_by_name_with_what_stands_beside_them(tmp_path: Path) -> None:
    items = items_of(write_folder(tmp_path / "pictures"))
    assert [item.source for item in items] == ["b.png", "c.PNG", "sub/a.v2.jpg"]
    columns = [decode_item(item, RULES).columns for item in items]
    assert columns == [
        {"text": "a caption", "id": 7, "tags": ["x"]},
        {},
        {"text": "two\nlines"},
    ]


def test_a_tar_gives_the_same_as_its_folder(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "pictures")
    with tarfile.open(tmp_path / "p.tar", "w") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                tar.add(path, path.relative_to(folder).as_posix())
    from_tar, from_folder = items_of(tmp_path / "p.tar"), items_of(folder)
    assert [item.source for item in from_tar] == [f"p.tar/{item.source}" for item in from_folder]
    for one, other in zip(from_tar, from_folder, strict=True):
        a, b = decode_item(one, RULES), decode_item(other, RULES)
        assert a.columns == b.columns
        assert np.array_equal(list(a.frames), list(b.frames))


def test_a_glob_keeps_captions_that_it_does_not_match(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "pictures")
    items = items_of(folder / "**" / "*.png")
    assert [item.source for item in items] == ["b.png"]
    assert decode_item(items[0], RULES).columns["text"] == "a caption"
    assert decode_item(items_of(folder / "b.png")[0], RULES).columns["id"] == 7


def test_a_changed_caption_changes_the_fingerprint(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "pictures")

    def fingerprint() -> str:
        (found,) = find_media(str(folder), "vision", "image", tmp_path / "cache")
        return found.source.fingerprint

    before = fingerprint()
    assert fingerprint() == before
    (folder / "b.txt").write_text("another\n")
    assert fingerprint() != before


def test_a_file_that_a_record_names_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded(picture()))
    (tmp_path / "t.jsonl").write_text('{"image": "a.png"}\n{"image": "gone.png"}\n')

    def fingerprint() -> str:
        (found,) = find_media(str(tmp_path / "t.jsonl"), "vision", "image", None)
        return found.source.fingerprint

    before = fingerprint()
    (tmp_path / "a.png").write_bytes(encoded(picture(seed=1)))
    assert fingerprint() != before


def test_a_csv_may_name_pictures_and_beside_them_it_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded(picture()))
    (tmp_path / "labels.csv").write_text('image,text\na.png,"a ""cat"""\n')
    (item,) = items_of(tmp_path / "labels.csv")
    decoded = decode_item(item, RULES)
    assert (item.source, decoded.columns) == ("labels.csv:2", {"text": 'a "cat"'})
    assert len(list(decoded.frames)) == 1
    assert [item.source for item in items_of(tmp_path)] == ["a.png"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.png", "metadata.jsonl"], "holds both a.png and the table metadata.jsonl"),
        (["a.tar.gz"], "is a compressed tar"),
        (["a.txt"], "no file to encode"),
        (["a.wav"], "no file to encode in .*: this encoder is for vision, and a.wav is a sound"),
        (["a.tar"], "as tar"),
    ],
)
def test_a_folder_that_cannot_be_read_says_why(
    tmp_path: Path, names: list[str], message: str
) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"xyz" * 999)
    with pytest.raises(InputError, match=message):
        find_media(str(tmp_path), "vision", "image", None)


def test_a_dataset_of_tokens_holds_no_media(tmp_path: Path) -> None:
    write_packed(tmp_path / "packed", num_rows=1)
    with pytest.raises(InputError, match="packed is a packed dataset, which holds tokens and no"):
        find_media(str(tmp_path / "packed"), "vision", "image", None)


def test_a_pipe_or_a_link_to_nothing_is_an_input_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(InputError, match="is a FIFO"):
        find_media(str(tmp_path), "vision", "image", None)
    (tmp_path / "a.png").unlink()
    (tmp_path / "b.png").symlink_to("nowhere.png")
    with pytest.raises(InputError, match=r"b\.png: No such file"):
        find_media(str(tmp_path / "*.png"), "vision", "image", None)
    with pytest.raises(InputError, match="matches no file"):
        find_media(str(tmp_path / "*.jpg"), "vision", "image", None)


@pytest.mark.parametrize(("cut", "message"), [(1500, "ends within b"), (2560, "no end mark")])
def test_a_cut_off_tar_is_an_input_error(tmp_path: Path, cut: int, message: str) -> None:
    (tmp_path / "b.png").write_bytes(bytes(2000))
    with tarfile.open(tmp_path / "p.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(tmp_path / "b.png", "b.png")  # 512 bytes of header, 2048 of content
    data = (tmp_path / "p.tar").read_bytes()
    (tmp_path / "p.tar").write_bytes(data[:cut])
    with pytest.raises(InputError, match=message):
        find_media(str(tmp_path / "p.tar"), "vision", "image", None)


@pytest.mark.parametrize(
    ("text", "reason"), [("[1]", "not an object"), ("{", "not valid"), ("\udcff", "not valid")]
)
def test_a_bad_json_beside_a_picture_makes_it_a_bad_record(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "a.png").write_bytes(encoded(picture()))
    (tmp_path / "a.json").write_text(text, errors="surrogateescape")
    assert reason in decode_item(items_of(tmp_path)[0], RULES).reason


def test_a_caption_that_is_not_utf8_makes_a_bad_record(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded(picture()))
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in decode_item(items_of(tmp_path)[0], RULES).reason


# --- videos -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def video() -> bytes:
    """20 frames at 10 a second; frame i is grey of level 10 i."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for i in range(20):
            grey = np.full((64, 64, 3), 10 * i, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(grey, format="rgb24")))
        container.mux(stream.encode())
    return file.getvalue()


def frames_of(data: bytes, **rules: Any) -> list[int]:
    decoded = decode(data, PictureRules(framing=FRAME, **{**NO_FRAMES, **rules}))
    assert not decoded.reason
    return [round(float(frame.mean()) / 10) for frame in decoded.frames]


NO_FRAMES: dict[str, Any] = {"fps": None, "frames": None}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"fps": 2}, [0, 5, 10, 15]),
        ({"fps": 10}, list(range(20))),
        ({"fps": 0.5}, [0]),
        ({"fps": 3}, [0, 3, 6, 10, 13, 16]),
        ({"fps": 20}, [i // 2 for i in range(40)]),
        ({"frames": 4}, np.linspace(0, 19, 4).astype(int).tolist()),
        ({"frames": 1}, [0]),
        ({"frames": 50}, list(range(20))),
    ],
)
def test_the_frames_of_a_video_are_taken_by_rate_or_count(
    video: bytes, rules: dict[str, Any], expected: list[int]
) -> None:
    assert frames_of(video, **rules) == expected


def test_a_video_without_a_rate_is_a_config_error(video: bytes) -> None:
    with pytest.raises(ConfigError, match="--fps or --frames"):
        decode(video)


def test_a_broken_video_has_a_reason(video: bytes) -> None:
    rules = PictureRules(framing=FRAME, fps=1, frames=None)
    with pytest.raises(
        ValueError, match="is cut off: 1349 bytes should follow byte 36, but there are only 164"
    ):
        list(decode(video[:200], rules).frames)


def test_videos_are_known_by_their_first_bytes(video: bytes) -> None:
    assert is_video(video)
    assert not is_video(encoded(picture()))
    assert not is_video(b"\0\0\0 ftypavif")
    assert is_video(b"\x1aE\xdf\xa3....")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_a_picture_in_a_tar_that_is_no_file_is_an_error_and_not_left_out(
    tmp_path: Path, kind: bytes
) -> None:
    with tarfile.open(tmp_path / "p.tar", "w") as tar:
        for name in ("notes", "a.png"):  # nobody asks for notes
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "b.png"
            tar.addfile(member)
    with pytest.raises(
        InputError, match=r"a\.png of .*p\.tar is a (link|device), not a file; pack"
    ):
        list_tar(str(tmp_path / "p.tar"), "vision")
