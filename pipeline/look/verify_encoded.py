"""Check a dataset of codes against its manifest: every hash, count, code and frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dataprep.pipeline.encoders import Encoder, find_weights, open_encoder
from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.files import hash_file
from dataprep.pipeline.look.verify import Verified
from dataprep.pipeline.storage.manifest import check_sum, read_manifest


def verify_encoded(folder: Path) -> Verified:
    """Read everything; the first thing wrong is a CorruptError that names it."""
    manifest = _read(folder)
    check_sum(manifest, folder)
    num_records = num_codes = num_bytes = 0
    for entry in (*manifest["shards"], *manifest["files"]):
        path = folder / entry["path"]
        if not path.is_file():
            raise CorruptError(f"{path} is missing")
        if path.stat().st_size != entry["num_bytes"] or hash_file(path) != entry["xxh3_128"]:
            raise CorruptError(f"{path} is not what its manifest says: it was changed or damaged")
        num_bytes += entry["num_bytes"]
    for shard in manifest["shards"]:
        records, codes = _check_codes(folder / shard["path"], manifest)
        if (records, codes) != (shard["num_records"], shard["num_tokens"]):
            raise CorruptError(f"{folder / shard['path']} has not the records its manifest says")
        num_records, num_codes = num_records + records, num_codes + codes
    counts = manifest["counts"]
    if (num_records, num_codes) != (counts["documents_written"], counts["codes"]):
        raise CorruptError(f"{folder} holds {num_records} records, not as its manifest says")
    return Verified(
        folder=folder,
        kind="encoded",
        num_shards=len(manifest["shards"]),
        num_items=num_records,
        num_tokens=num_codes,
        num_bytes=num_bytes,
    )


def encoder_of(folder: Path) -> Encoder:
    """The encoder that made a dataset of codes, for example to decode them."""
    manifest = _read(folder)
    encoder, path = manifest["encoder"], manifest["config"]["weights"]
    weights = find_weights(path, None)
    if weights is not None and weights.fingerprint != encoder["identity"].get("weights"):
        raise ConfigError(f"{path} is not the file of weights that made {folder} any more")
    return open_encoder(encoder["name"], manifest["config"]["settings"], weights)


def _read(folder: Path) -> dict[str, Any]:
    manifest = read_manifest(folder)
    if manifest["kind"] != "encoded":
        raise ConfigError(f"{folder} is {manifest['kind']}, not made by dataprep encode")
    return manifest


def _check_codes(path: Path, manifest: dict[str, Any]) -> tuple[int, int]:
    import pyarrow.parquet as pq

    encoder = manifest["encoder"]
    column = pq.read_table(path, columns=[manifest["config"]["into"]]).column(0).combine_chunks()
    codes = column.flatten(recursive=True).to_numpy()
    if len(codes) and (codes.min() < 0 or codes.max() >= encoder["codebook_size"]):
        raise CorruptError(f"{path} holds a code outside 0..{encoder['codebook_size'] - 1}")
    whole = encoder.get("tokens_per_frame") or encoder["num_codebooks"]
    lengths = np.diff(column.offsets.to_numpy())
    if column.null_count or not lengths.all() or (lengths % whole).any():
        raise CorruptError(f"{path} holds a record without codes, or with a part of a frame")
    return len(column), len(codes)
