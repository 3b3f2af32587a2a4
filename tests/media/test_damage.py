"""What is cut off, damaged, moving or ambiguous is said to be so, and nothing healthy is."""

from __future__ import annotations

import base64
import io
import json
import re
import struct
import tarfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile
from PIL import Image

from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.media import Item, PictureRules, SoundRules, decode_item
from dataprep.pipeline.media.values import Blob, Surroundings, parts_of, paths_in
from dataprep.pipeline.media.video import frames_at_rate, frames_by_count
from dataprep.pipeline.media.whole import check_whole
from support.encoding import encode_here
from support.media import FRAME, RULES, decode, encoded, items_of, picture, sine

SOUND = SoundRules(rate=16000, loudness="none")


def moving(fps: float | None = None, frames: int | None = None) -> PictureRules:
    return PictureRules(framing=FRAME, fps=fps, frames=frames)


# --- sounds -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sounds() -> dict[str, bytes]:
    found = {}
    for name, format, subtype in [
        ("wav", "WAV", "PCM_16"),
        ("wavex", "WAVEX", "FLOAT"),
        ("rf64", "RF64", "PCM_16"),
        ("rifx", "WAV", "PCM_16"),
        ("aiff", "AIFF", "PCM_16"),
        ("opus", "OGG", "OPUS"),
        ("ogg", "OGG", "VORBIS"),
        ("flac", "FLAC", "PCM_16"),
        ("mp3", "MP3", "MPEG_LAYER_III"),
    ]:
        file = io.BytesIO()
        endian = "BIG" if name == "rifx" else None
        soundfile.write(file, sine(16000, 440, 3), 16000, subtype, endian, format)
        found[name] = file.getvalue()
    assert found["rifx"][:4] == b"RIFX"
    assert found["rf64"][:4] == b"RF64"
    return found


SOUNDS = ["wav", "wavex", "rf64", "rifx", "aiff", "opus", "ogg", "flac", "mp3"]


@pytest.mark.parametrize("name", SOUNDS)
def test_a_whole_sound_is_read_in_full(sounds: dict[str, bytes], name: str) -> None:
    decoded = decode(sounds[name], SOUND)
    assert decoded.reason == ""
    assert decoded.waveform is not None
    assert len(decoded.waveform) == 48000


@pytest.mark.parametrize("name", SOUNDS)
@pytest.mark.parametrize("share", [0.5, 0.8, 0.999])
def test_a_cut_off_sound_is_bad(sounds: dict[str, bytes], name: str, share: float) -> None:
    data = sounds[name]
    assert decode(data[: int(len(data) * share)], SOUND).reason


@pytest.mark.parametrize("name", ["wav", "aiff"])
def test_the_reason_says_how_much_is_missing_and_what_to_do(
    sounds: dict[str, bytes], name: str, tmp_path: Path
) -> None:
    (tmp_path / f"a.{name}").write_bytes(sounds[name][:-1000])
    (item,) = items_of(tmp_path, "audio", "audio")
    reason = decode_item(item, SOUND).reason
    assert "is cut off: 960" in reason
    assert "copy it again" in reason


def test_a_cut_off_mp3_is_told_by_its_samples(sounds: dict[str, bytes]) -> None:
    data = sounds["mp3"]
    reason = decode(data[: len(data) // 2], SOUND).reason
    assert re.match(r"is cut off: it has 2\d{4} of 48000 samples", reason)


def test_an_ogg_file_that_ends_with_a_page_but_not_the_last_is_bad(
    sounds: dict[str, bytes],
) -> None:
    data = sounds["opus"]
    last_page = data.rindex(b"OggS")
    assert last_page > 0
    assert "no page is marked as the last" in decode(data[:last_page], SOUND).reason


@pytest.mark.parametrize("stated", [0, 0xFFFFFFFF, 0x7FFFF000, 0x80000000, 0xFFFFFFFF - 36])
def test_lengths_that_a_stream_could_not_know_are_allowed(
    sounds: dict[str, bytes], stated: int
) -> None:
    data = bytearray(sounds["wav"])
    place = data.index(b"data")
    struct.pack_into("<I", data, place + 4, stated)
    struct.pack_into("<I", data, 4, stated)
    check_whole(io.BytesIO(bytes(data)))
    struct.pack_into("<I", data, place + 4, 96001)  # one more than there is
    with pytest.raises(ValueError, match="is cut off: 96001 bytes should follow byte 44"):
        check_whole(io.BytesIO(bytes(data)))


def test_samples_that_are_no_numbers_are_damage() -> None:
    file = io.BytesIO()
    soundfile.write(file, np.array([0, np.nan]), 16000, format="WAV", subtype="FLOAT")
    assert decode(file.getvalue(), SOUND).reason.startswith("is damaged")


# --- videos -------------------------------------------------------------------------------------

CONTAINERS = [
    ("mp4", "mpeg4"),
    ("mp4", "libx264"),
    ("mov", "mjpeg"),
    ("matroska", "mpeg4"),
    ("matroska", "libx264"),
    ("webm", "libvpx"),
    ("avi", "mpeg4"),
    ("avi", "mjpeg"),
    ("mpegts", "mpeg2video"),
    ("mpeg", "mpeg2video"),
]
SOUND_CODECS = {"webm": "libopus", "avi": "mp2", "mpegts": "mp2", "mpeg": "mp2"}
SOUND_FRAMES = {"libopus": (960, "s16"), "mp2": (1152, "s16"), "aac": (1024, "fltp")}


def video(
    format: str,
    codec: str,
    rate: Fraction = Fraction(25),
    *,
    num_frames: int = 40,
    time: Callable[[int], int] = lambda i: i,
    seconds_of_sound: int = 0,
    file: Any = None,
    **options: str,
) -> bytes:
    file = io.BytesIO() if file is None else file
    noise = np.random.default_rng(0).integers(0, 256, (num_frames, 48, 48, 3)).astype(np.uint8)
    with av.open(file, "w", format=format, options=options) as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width = stream.height = 48
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        track = None
        if seconds_of_sound:
            track = container.add_stream(SOUND_CODECS.get(format, "aac"), rate=48000)
        for i, pixels in enumerate(noise):
            frame = av.VideoFrame.from_ndarray(pixels // 2 + 2 * i, format="rgb24")
            frame.pts = time(i)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        if track is not None:
            size, kind = SOUND_FRAMES[SOUND_CODECS.get(format, "aac")]
            silence = (
                np.zeros((2, size), np.float32) if kind == "fltp" else np.zeros((1, 2 * size), "i2")
            )
            for start in range(0, 48000 * seconds_of_sound, size):
                frame = av.AudioFrame.from_ndarray(silence, format=kind, layout="stereo")
                frame.sample_rate, frame.pts = 48000, start
                container.mux(track.encode(frame))
            container.mux(track.encode())
    return b"" if isinstance(file, Path) else bytes(file.getvalue())


def num_frames(data: bytes, **rules: Any) -> int:
    decoded = decode(data, moving(**rules))
    if decoded.reason:
        raise ValueError(decoded.reason)
    return len(list(decoded.frames))


def frames_in(data: bytes, fps: float) -> int:
    """Also of containers that are not taken for videos by their first bytes."""
    return len(list(frames_at_rate(Blob(data=data), fps, np.asarray)))


@pytest.mark.parametrize(("format", "codec"), CONTAINERS)
@pytest.mark.parametrize("rate", [Fraction(10), Fraction(30000, 1001)])
def test_a_healthy_video_is_never_refused(format: str, codec: str, rate: Fraction) -> None:
    data = video(format, codec, rate)
    assert frames_in(data, float(rate)) in (40, 41)
    assert len(frames_by_count(Blob(data=data), 100, np.asarray)) == 40
    assert frames_in(video(format, codec, rate, num_frames=1), 5) >= 1
    assert (
        frames_in(video(format, codec, rate, time=lambda i: 2 * i + i % 2 + 50 * (i > 30)), 5) > 5
    )
    assert frames_in(video(format, codec, rate, seconds_of_sound=6), 5) > 5


@pytest.mark.parametrize("flags", ["faststart", "frag_keyframe+empty_moov", "dash"])
def test_mp4_files_of_every_layout_are_checked(flags: str, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"  # the index is moved to the front of a file alone
    video("mp4", "mpeg4", file=path, movflags=flags)
    data = path.read_bytes()
    assert num_frames(data, fps=25) == 40
    with pytest.raises(ValueError, match=r"cut off|cannot be read|damaged"):
        num_frames(data[: len(data) // 2], fps=25)


def test_a_stream_that_states_no_length_is_read_to_its_end() -> None:
    class Pipe(bytearray):
        def write(self, data: bytes) -> int:
            self.extend(data)
            return len(data)

        def getvalue(self) -> bytes:
            return bytes(self)

    data = video("matroska", "mpeg4", file=Pipe(b""), live="1")
    assert num_frames(data, fps=25) == 40
    with pytest.raises(ValueError, match="is cut off"):
        num_frames(data[:-100], fps=25)
    data = video("avi", "mpeg4", file=Pipe(b""))
    assert num_frames(data, fps=25) == 40


@pytest.mark.parametrize(("format", "codec"), CONTAINERS[:8])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99])
def test_a_cut_off_video_is_bad(format: str, codec: str, share: float) -> None:
    data = video(format, codec)
    for rules in ({"fps": 25}, {"frames": 4}):
        with pytest.raises(ValueError, match=r"is cut off|cannot be read as a video"):
            num_frames(data[: int(len(data) * share)], **rules)


@pytest.mark.parametrize(("format", "codec"), [c for c in CONTAINERS[:8] if c[0] != "avi"])
def test_no_damage_makes_a_video_shorter_without_a_word(format: str, codec: str) -> None:
    data = video(format, codec)
    num_refused = 0
    for place in np.linspace(0.05, 0.95, 12) * len(data):
        damaged = bytearray(data)
        damaged[int(place) : int(place) + 200] = bytes(200)
        try:
            assert frames_in(bytes(damaged[: len(data)]), 25) >= 39
        except ValueError:
            num_refused += 1
    assert num_refused > 0


def test_matroska_blocks_that_cannot_be_found_are_damage() -> None:
    data = bytearray(video("matroska", "libx264"))
    blocks = [found.start() for found in re.finditer(rb"\xa3[\x40-\x7f].\x81", data, re.DOTALL)]
    assert len(blocks) > 30
    data[blocks[20] : blocks[20] + 200] = bytes(200)
    with pytest.raises(ValueError, match="is damaged at byte"):
        num_frames(bytes(data), fps=25)


def test_a_scene_cut_out_of_a_video_is_healthy() -> None:
    """Its first frames may need some that are gone: decoders leave them out."""
    options = {"x264-params": "open-gop=1:keyint=12:scenecut=0:bframes=3"}
    whole, part = io.BytesIO(), io.BytesIO()
    with av.open(whole, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=25, options=options)
        stream.width = stream.height = 48
        for i in range(40):
            pixels = np.random.default_rng(i).integers(0, 256, (48, 48, 3)).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    whole.seek(0)
    num_keys = num_packets = 0
    with av.open(whole) as source, av.open(part, "w", format="mp4") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            num_keys += packet.is_keyframe
            if packet.size and num_keys >= 2:
                packet.stream = stream
                target.mux(packet)
                num_packets += 1
    assert 20 < num_packets - 3 <= num_frames(part.getvalue(), fps=25) <= num_packets


def test_what_is_called_a_video_and_is_none_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("no video")
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        tar.add(tmp_path / "a.mp4", "b.mkv")
    for spec in (tmp_path / "a.mp4", tmp_path / "t.tar"):
        (item,) = items_of(spec)
        assert decode_item(item, moving(frames=2)).reason.startswith("is not a readable video")


# --- animations ---------------------------------------------------------------------------------


def animation(format: str, **options: Any) -> bytes:
    """6 frames; frame i is grey of level 40 i."""
    first, *rest = [Image.new("RGB", (40, 40), (40 * i,) * 3) for i in range(6)]
    return encoded(first, format, save_all=True, append_images=rest, **options)


def levels(data: bytes, **rules: Any) -> list[int]:
    decoded = decode(data, moving(**rules))
    assert decoded.reason == ""
    return [round(float(frame.mean()) / 40) for frame in decoded.frames]


ANIMATIONS = {
    "GIF": {"duration": 100},
    "WEBP": {"duration": 100, "lossless": True},
    "PNG": {"duration": 100},
    "TIFF": {},
}


@pytest.mark.parametrize("format", ANIMATIONS)
def test_frames_of_an_animation_are_taken_by_count(format: str) -> None:
    data = animation(format, **ANIMATIONS[format])
    assert levels(data, frames=1) == [0]
    assert levels(data, frames=3) == [0, 2, 5]
    assert levels(data, frames=9) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG"])
def test_frames_of_an_animation_are_taken_by_their_times(format: str) -> None:
    options = {**ANIMATIONS[format], "duration": [100, 400, 100, 100, 100, 100]}
    data = animation(format, **options)
    assert levels(data, fps=10) == [0, 1, 1, 1, 1, 2, 3, 4, 5]
    assert levels(data, fps=5) == [0, 1, 1, 3, 5]


def test_frames_without_a_time_are_shown_for_a_tenth_of_a_second() -> None:
    assert levels(animation("GIF"), fps=10) == [0, 1, 2, 3, 4, 5]
    assert "pages without times" in decode(animation("TIFF"), moving(fps=1)).reason


@pytest.mark.parametrize("format", ANIMATIONS)
def test_an_animation_without_a_rate_is_a_config_error_as_a_video_is(format: str) -> None:
    with pytest.raises(ConfigError, match=r"/a has 6 frames or pages; .*--fps or --frames"):
        decode(animation(format, **ANIMATIONS[format]))


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG", "TIFF", "JPEG"])
def test_a_still_picture_is_one_frame_whatever_is_asked(format: str) -> None:
    data = encoded(picture(), format)
    for rules in ({}, {"fps": 9}, {"frames": 3}):
        assert num_frames(data, **rules) == 1


def test_of_a_stand_in_and_one_frame_the_frame_is_taken() -> None:
    stand_in, frame = (Image.new("RGB", (64, 64), colour) for colour in ("red", "blue"))
    file = io.BytesIO()
    options = {"save_all": True, "append_images": [frame], "default_image": True}
    stand_in.save(file, "PNG", duration=100, **options)
    for rules in (moving(), moving(frames=4)):
        (pixels,) = decode(file.getvalue(), rules).frames
        assert pixels[0, 0].tolist() == [0, 0, 255]


def test_what_is_no_frame_of_its_own_is_not_counted() -> None:
    pictures = [picture(seed=i) for i in range(2)]
    assert num_frames(encoded(pictures[0], "MPO", save_all=True, append_images=pictures[1:])) == 1
    small = picture(20, 15)
    small.encoderinfo = {"tiffinfo": {254: 1}}
    data = encoded(pictures[0], "TIFF", save_all=True, append_images=[small])
    with Image.open(io.BytesIO(data)) as pages:
        assert pages.n_frames == 2
    assert num_frames(data) == 1
    replaced = animation("PNG", duration=100, default_image=True)
    assert levels(replaced, frames=9) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("format", ANIMATIONS)
def test_a_cut_off_animation_is_bad(format: str) -> None:
    frames = [picture(40, 40, seed=i) for i in range(6)]
    options = {**ANIMATIONS[format], "save_all": True, "append_images": frames[1:]}
    data = encoded(frames[0], format, **options)
    assert num_frames(data, frames=6) == 6
    with pytest.raises(ValueError, match="cannot be read as a picture"):
        num_frames(data[:-200], frames=6)


def test_an_animation_in_a_list_is_refused_as_a_video_is() -> None:
    parts = [Blob(data=encoded(picture())), Blob(data=animation("GIF"))]
    item = Item(line=0, source="a", file="/a", num_bytes=0, parts=parts)
    assert "a list with an animation" in decode_item(item, moving(frames=2)).reason


# --- captions -----------------------------------------------------------------------------------


def test_endings_of_captions_may_be_in_upper_case(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("B.PNG", "c.png"):
        (folder / name).write_bytes(encoded(picture()))
    (folder / "B.TXT").write_text("loud")
    (folder / "c.Json").write_text('{"id": 7}')
    with tarfile.open(tmp_path / "p.tar", "w") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name)
    for spec in (folder, tmp_path / "p.tar"):
        columns = [decode_item(item, moving()).columns for item in items_of(spec)]
        assert columns == [{"text": "loud"}, {"id": 7}]
    assert decode_item(items_of(folder / "B.PNG")[0], moving()).columns == {"text": "loud"}
    (folder / "B.txt").write_text("soft")
    with pytest.raises(InputError, match=r"B\.PNG in .* has both a \.TXT and a \.txt beside it"):
        items_of(folder)


@pytest.mark.parametrize(
    ("beside", "reason"),
    [
        ('{"text": "a cat", "id": 7}', ""),
        ('{"id": 7}', ""),
        ('{"text": "a dog", "id": 7}', "whose texts differ; keep one"),
        ('{"text": null, "id": 7}', "whose texts differ"),
        ('{"id": 6, "id": 7}', "not valid: it has the key 'id' twice"),
        ('{"id": {"a": 1, "a": 1}}', "not valid: it has the key 'a' twice"),
    ],
)
def test_a_caption_has_one_text(tmp_path: Path, beside: str, reason: str) -> None:
    (tmp_path / "a.png").write_bytes(encoded(picture()))
    (tmp_path / "a.txt").write_text("a cat\n")
    (tmp_path / "a.json").write_text(beside)
    decoded = decode_item(items_of(tmp_path)[0], moving())
    assert reason in decoded.reason
    if not reason:
        assert decoded.reason == ""
        assert decoded.columns == {"text": "a cat", "id": 7}


# --- columns of tables --------------------------------------------------------------------------


def test_json_may_hold_structs_of_base64_or_a_path(tmp_path: Path) -> None:
    data = encoded(picture())
    (tmp_path / "a.png").write_bytes(data)
    text = base64.b64encode(data).decode()
    values: list[Any] = [
        {"bytes": text},
        {"bytes": text, "path": "elsewhere.png"},
        {"path": "a.png"},
        {"bytes": None, "path": "a.png"},
        [{"path": "a.png"}, {"bytes": text}],
    ]
    lines = [json.dumps({"image": value}) + "\n" for value in values]
    (tmp_path / "t.jsonl").write_text("".join(lines))
    counts = [len(list(decode_item(i, moving()).frames)) for i in items_of(tmp_path / "t.jsonl")]
    assert counts == [1, 1, 1, 1, 2]
    assert [list(paths_in(value)) for value in values] == [[], [], ["a.png"], ["a.png"], ["a.png"]]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("http://x/y.png", r"is a URL \(http://x/y.png\).*download it first"),
        ({"path": "https://x/y"}, "is a URL"),
        ({"path": None}, r"neither bytes as base64 nor a path \(keys: path\)"),
        ({"bytes": 7, "path": "a.png"}, "neither bytes"),
        ({"bytes": "not base64!"}, "nor base64"),
        ({}, "neither bytes"),
    ],
)
def test_a_struct_or_url_that_is_no_picture_has_a_reason(value: Any, reason: str) -> None:
    assert list(paths_in(value)) == []
    with pytest.raises(ValueError, match=reason):
        parts_of(value, Surroundings(folder="/"), is_json=True)


# --- what people are told -----------------------------------------------------------------------


def test_a_picture_of_too_many_pixels_is_to_be_scaled_down() -> None:
    found = decode(encoded(picture()), replace(RULES, max_pixels=200))
    assert found.reason == "has more than 200 pixels; scale it down, or raise --max-pixels"


def test_quarantined_records_have_their_file_and_line_apart(tmp_path: Path) -> None:
    table, file = tmp_path / "t.jsonl", tmp_path / "a.png"
    file.write_bytes(b"none")
    good = base64.b64encode(encoded(picture())).decode()
    table.write_text(f'{{"image": "{good}"}}\n{{"image": null}}\n')
    encode_here(tmp_path / "out", table, file, on_error="quarantine")
    lines = (tmp_path / "out" / "errors.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "file": str(table),
            "line": 2,
            "byte_offset": len(table.read_bytes().split(b"\n")[0]) + 1,
            "reason": "column 'image' is null; give bytes, a path, base64 or {bytes, path}",
            "excerpt": '{"image": null}',
        },
        {
            "file": str(file),
            "line": None,
            "byte_offset": -1,
            "reason": "is not a picture of a known kind",
            "excerpt": "",
        },
    ]


def test_a_video_that_breaks_off_is_left_out_whole(tmp_path: Path) -> None:
    data = video("matroska", "mpeg4")
    for name, content in [("a.mkv", data), ("b.mkv", data[: len(data) // 2]), ("c.mkv", data)]:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=r"b\.mkv: is cut off: .*copy it again.*--on-error"):
        encode_here(tmp_path / "failed", tmp_path / "*.mkv", fps=5)
    manifest = encode_here(tmp_path / "out", tmp_path / "*.mkv", fps=5, on_error="skip")
    assert manifest["counts"]["documents_dropped"] == 1
    assert manifest["counts"]["documents_written"] == 2
