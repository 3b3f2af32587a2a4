"""Check a shard of codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.encode import EncodeConfig
from dataprep.configs.load import recorded
from dataprep.pipeline.errors import CorruptError, counted
from dataprep.pipeline.storage.entries import CodeShard, EncoderEntry
from dataprep.pipeline.storage.manifest import EncodedManifest
from dataprep.pipeline.storage.parquet import columns_of


def said_of_codes(folder: Path, manifest: EncodedManifest) -> dict[str, int]:
    counts = manifest.counts
    return {
        "documents_written": counts["documents_written"],
        "tokens": counts["codes"],
        "frames": counts["frames"],
    }


def codes_checker(folder: Path, manifest: EncodedManifest) -> Callable[[CodeShard], Counter[str]]:
    encoder = manifest.encoder
    name = recorded(EncodeConfig, manifest.config, folder).into or encoder.kind

    def check(shard: CodeShard) -> Counter[str]:
        path = folder / shard.path
        column = read_codes(path, name, manifest)
        if len(column) != shard.num_records:
            raise CorruptError(
                f"{path} holds {counted(len(column), 'record')}, its manifest says "
                f"{shard.num_records:,}"
            )
        codes: NDArray[Any] = column.flatten(recursive=True).to_numpy(zero_copy_only=False)
        if len(codes) and (codes.min() < 0 or codes.max() >= encoder.codebook_size):
            raise CorruptError(f"{path} holds a code outside 0..{encoder.codebook_size - 1}")
        if column.null_count or not _are_whole(column, encoder):
            raise CorruptError(f"{path} holds a record without codes, or with a part of a frame")
        frames = len(codes) // encoder.frame_codes
        return Counter(documents_written=len(column), tokens=len(codes), frames=frames)

    return check


def read_codes(path: Path, name: str, manifest: EncodedManifest) -> Any:
    """Return the column of codes; the columns of the shard must be those of the manifest."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = columns_of(path)
        if list(found.items()) != list(manifest.columns.items()) or name not in found:
            raise CorruptError(f"{path} has other columns than its manifest lists")
        depth, inner = 0, pq.read_schema(path).field(name).type
        while pa.types.is_list(inner) or pa.types.is_large_list(inner):
            depth, inner = depth + 1, inner.value_type
        if depth not in (1, 2) or str(inner) != manifest.token_dtype:
            raise CorruptError(f"column {name} of {path} does not hold {manifest.token_dtype}")
        return pq.read_table(path, columns=[name]).column(0).combine_chunks()
    except (pa.ArrowException, OSError, IndexError) as error:
        raise CorruptError(f"{path} cannot be read as Parquet: {error}") from None


def _are_whole(column: Any, encoder: EncoderEntry) -> bool:
    """Return whether every record has codes, and those of whole frames."""
    import pyarrow as pa

    lengths = np.diff(column.offsets.to_numpy())
    inner = column.flatten()
    if not pa.types.is_list(inner.type) and not pa.types.is_large_list(inner.type):
        return bool(lengths.all() and (lengths % encoder.frame_codes == 0).all())
    # A list for each codebook, all of one length.
    books = np.diff(inner.offsets.to_numpy())
    if inner.null_count or (lengths != encoder.frame_codes).any():
        return False
    by_record = books.reshape(len(lengths), -1)
    return bool(by_record.all() and (by_record == by_record[:, :1]).all())
