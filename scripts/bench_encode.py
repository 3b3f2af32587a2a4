"""Measure how fast media become codes: decoding, the encoders alone, and the whole command.

    python scripts/bench_encode.py [FOLDER] [--vqgan] [--pictures 400]

FOLDER holds pictures of your own; without it, JPEGs of 640x480 are made. "decode" is reading,
decoding and scaling to 256x256 on one core; "encode" is the encoder alone on one core, in batches
of its size; "command" is `dataprep encode` on all cores, less its time for one picture. The VQGAN
has LWM's full size and random weights (240 MB are made), which cost the same as trained ones; it
runs as in workers, with one thread per process.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dataprep.pipeline.encoders import find_weights, open_encoder
from dataprep.pipeline.encoders.vqgan.weights import LWM, parameter_shapes, write_tensors
from dataprep.pipeline.media.pictures import Framing, open_picture, png_of, to_frame
from dataprep.pipeline.media.sound import resample

FRAME = Framing(height=256, width=256)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--pictures", type=int, default=400, help="made where no folder is named")
    parser.add_argument("--vqgan", action="store_true", help="the VQGAN too: some minutes")
    parser.add_argument("--vqgan-pictures", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        folder = arguments.folder or make_pictures(place / "pictures", arguments.pictures)
        bench_pictures(folder)
        bench_sound()
        bench_command(folder, place)
        if arguments.vqgan:
            bench_vqgan(folder, place, arguments.vqgan_pictures)


def make_pictures(folder: Path, count: int, size: tuple[int, int] = (640, 480)) -> Path:
    """Draw smooth shapes with some noise, about as hard for JPEG as photographs."""
    import PIL.Image

    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(count):
        coarse = PIL.Image.fromarray(rng.integers(0, 256, (12, 16, 3)).astype(np.uint8))
        pixels = np.asarray(coarse.resize(size)) + rng.normal(0, 6, (size[1], size[0], 1))
        picture = PIL.Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
        picture.save(folder / f"{i:05d}.jpg", quality=90)
    return folder


def pictures_in(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.rglob("*")) if p.suffix in (".jpg", ".png", ".webp")]


def per_second(count: int, action: Callable[[], Any]) -> float:
    action()  # the first call loads and compiles
    begin = time.perf_counter()
    action()
    return count / (time.perf_counter() - begin)


def bench_pictures(folder: Path) -> None:
    files = [path.read_bytes() for path in pictures_in(folder)[:64]]
    size = sum(map(len, files)) / len(files) / 1e3
    squares = np.stack([to_frame(open_picture(data), FRAME) for data in files])
    encoder: Any = open_encoder("patches")
    codes = encoder.encode(squares)
    step = encoder.batch_size
    batches = [squares[i : i + step] for i in range(0, len(squares), step)]

    def decode() -> None:
        for data in files:
            to_frame(open_picture(data), FRAME)

    say(f"decode a picture of {size:.0f} kB to 256x256", per_second(len(files), decode))
    say(
        "patches encode",
        per_second(len(squares), lambda: [encoder.encode(batch) for batch in batches]),
    )
    say("patches decode", per_second(len(codes), lambda: encoder.decode(codes)))
    say("write a decoded picture as PNG", per_second(8, lambda: [png_of(s) for s in squares[:8]]))


def bench_sound() -> None:
    seconds = 60
    rng = np.random.default_rng(0)
    waveform = rng.uniform(-1, 1, seconds * 44100).astype(np.float32)
    encoder: Any = open_encoder("mulaw")
    at_rate = resample(waveform, 44100, 16000)
    resampled = per_second(seconds, lambda: resample(waveform, 44100, 16000))
    say("resample 44100 to 16000", resampled, "seconds of sound/s, one core")
    say("mulaw encode", per_second(seconds, lambda: encoder.encode(at_rate)), "seconds of sound/s")


def say(what: str, rate: float, unit: str = "pictures/s, one core") -> None:
    print(f"{what:44} {rate:12,.1f} {unit}", flush=True)


def bench_command(folder: Path, place: Path) -> None:
    files = pictures_in(folder)
    (place / "one").mkdir()
    shutil.copy(files[0], place / "one")
    seconds = [
        command(source, place / f"out-{i}", "--encoder", "patches")
        for i, source in enumerate((place / "one", folder))
    ]
    rate = (len(files) - 1) / max(seconds[1] - seconds[0], 1e-9)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{'dataprep encode --encoder patches':44} {rate:12,.1f} pictures/s, {cores} cores")


def command(source: Path, out: Path, *more: str) -> float:
    words = ["encode", str(source), "--out", str(out), "-q", "--on-error", "skip", *more]
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "dataprep.cli.main", *words], check=True)
    return time.perf_counter() - begin


VQGAN_PROCESS = """
import sys, time, resource, numpy as np
from dataprep.pipeline.encoders import find_weights, open_encoder
encoder = open_encoder("vqgan", {}, find_weights(sys.argv[1], None))
images = np.load(sys.argv[2])
begin = time.perf_counter()
encoder.encode(images[: encoder.batch_size])
first = time.perf_counter() - begin
begin = time.perf_counter()
for i in range(0, len(images), encoder.batch_size):
    encoder.encode(images[i : i + encoder.batch_size])
rate = len(images) / (time.perf_counter() - begin)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(f"{rate:.3f} pictures/s; first batch {first:.1f} s; {peak:.1f} GB")
"""


def bench_vqgan(folder: Path, place: Path, count: int) -> None:
    network = replace(LWM, has_decoder=False)
    rng = np.random.default_rng(0)
    tensors = {
        name: rng.standard_normal(shape, np.float32) / np.float32(np.prod(shape[:3]) ** 0.5)
        for name, shape in parameter_shapes(network).items()
    }
    write_tensors(tensors, place / "vqgan.safetensors")
    files = pictures_in(folder)[:count]
    squares = [to_frame(open_picture(path.read_bytes()), FRAME) for path in files]
    images = io.BytesIO()
    np.save(images, np.stack(squares[: len(squares) // 2 * 2]))
    (place / "images.npy").write_bytes(images.getvalue())
    encoder: Any = open_encoder("vqgan", {}, find_weights(str(place / "vqgan.safetensors"), None))
    words = [sys.executable, "-c", VQGAN_PROCESS, str(place / "vqgan.safetensors")]
    done = subprocess.run(
        [*words, str(place / "images.npy")],
        env={**os.environ, **encoder.environment},
        check=True,
        capture_output=True,
        text=True,
    )
    print(f"{'vqgan encode, full size, one core':44} {done.stdout.strip()}")


if __name__ == "__main__":
    main()
