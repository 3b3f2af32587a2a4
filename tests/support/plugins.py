"""An encoder and a source of a user's own, installed as pip would do it."""

from __future__ import annotations

from pathlib import Path

PLUGIN = """
import numpy as np
from pydantic import BaseModel
from dataprep.pipeline.encoders import EncoderSpec

class Settings(BaseModel):
    size: int = 8

class Brightness:
    codebook_size, batch_size, max_processes, can_decode = 256, 4, None, False
    tokens_per_frame, environment = 1, {}
    def __init__(self, settings):
        self.size = settings.size
        self.identity = {"encoder": "brightness", "size": self.size}
    def encode(self, images):
        return images.mean(axis=(1, 2, 3)).astype(np.int32)[:, None]

SPEC = EncoderSpec(name="brightness", kind="vision", about="one code a picture",
    settings=Settings, packages=(), extra="", takes_weights=False,
    open=lambda settings, weights: Brightness(settings))
"""


SOURCE = """
from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.batches import batch_rows
from dataprep.pipeline.sources.format import Format
from dataprep.pipeline.sources.stream import open_stream
from dataprep.pipeline.types import Source

class Fasta(Format):
    kind, version, endings, unit, may_be_compressed = "fasta", "1", (".fasta",), "sequence", True
    def split(self, source, target_bytes, keys):
        return cuts.whole(source)
    def read(self, source, piece, wanted):
        rows = ((row, len(row["text"])) for row in records(source)[wanted.from_line:])
        return batch_rows(rows, wanted, first_line=wanted.from_line)
    def count(self, source, piece, stop_after):
        return len(records(source))

class Squares(Format):
    kind, prefix, knows_rows = "squares", "squares:", True
    def find(self, spec):
        count = int(spec.removeprefix(self.prefix))
        mark = f"squares {count}"
        return [Source(kind=self.kind, path=spec, num_bytes=9 * count, fingerprint=mark)]
    def split(self, source, target_bytes, keys):
        return cuts.rows(source.num_bytes // 9, 9, target_bytes)
    def read(self, source, piece, wanted):
        numbers = range(piece.start + wanted.from_line, piece.stop)
        rows = (({"text": str(i * i)}, 9) for i in numbers)
        return batch_rows(rows, wanted, first_line=wanted.from_line)
    def count(self, source, piece, stop_after):
        return piece.stop - piece.start

def records(source):
    with open_stream(source, chunk_bytes=1 << 20) as chunks:
        text = b"".join(chunks).decode()
    entries = [entry.split("\\n") for entry in f"\\n{text}".split("\\n>")[1:]]
    return [{"name": name, "text": "".join(lines)} for name, *lines in entries]

FASTA, SQUARES = Fasta(), Squares()
"""


def install_plugin(
    folder: Path, entry_points: str, package: str = "plug", group: str = "dataprep.encoders"
) -> Path:
    """A folder as pip would fill it; its modules are PACKAGE_encoder and PACKAGE_source."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry_points}\n")
    (folder / f"{package}_encoder.py").write_text(PLUGIN)
    (folder / f"{package}_source.py").write_text(SOURCE)
    return folder
