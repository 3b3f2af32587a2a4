"""What the writers of other trainers take for the same documents, for `bench_export`.

    python scripts/own_writers.py FORMAT NAME.bin NAME.idx OUT

Prints the CPU seconds of a loop over documents that are in memory already, as users of the format
write it; exits with 3 if the format's own library is not installed. NAME.bin holds uint16.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

LONGEST = 2048  # ids of a record of xlstm and MaxText
MISSING = 3  # exit code: the library is not installed
Documents = list[Any]  # arrays of uint16


def megatron(documents: Documents, out: Path) -> Iterator[None]:
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

    tensors = [torch.from_numpy(ids.astype(np.int32)) for ids in documents]
    builder = IndexedDatasetBuilder(str(out / "a.bin"), dtype=np.uint16)
    yield
    for tensor in tensors:
        builder.add_document(tensor, [len(tensor)])
    builder.finalize(str(out / "a.idx"))


def mds(documents: Documents, out: Path) -> Iterator[None]:
    from streaming import MDSWriter

    arrays = [ids.astype(np.int32) for ids in documents]
    yield
    with MDSWriter(out=str(out), columns={"tokens": "ndarray:int32"}) as writer:
        for array in arrays:
            writer.write({"tokens": array})


def flat(documents: Documents, out: Path) -> Iterator[None]:
    joined = np.concatenate(documents)
    yield
    joined.tofile(out / "a.bin")


def xlstm(documents: Documents, out: Path) -> Iterator[None]:
    return array_record([ids.astype(np.int32).tobytes() for ids in _pieces(documents)], out)


def maxtext(documents: Documents, out: Path) -> Iterator[None]:
    from dataprep.pipeline.storage.foreign.tfexample import encode_examples

    pieces = _pieces(documents)
    offsets = np.concatenate(([0], np.cumsum([len(ids) for ids in pieces])))
    examples = encode_examples("text", np.concatenate(pieces), offsets)
    return array_record([bytes(example) for example in examples], out)


def array_record(records: list[bytes], out: Path) -> Iterator[None]:
    from array_record.python.array_record_module import ArrayRecordWriter

    yield
    writer = ArrayRecordWriter(str(out / "a.arrayrecord"), "group_size:1,uncompressed")
    for record in records:
        writer.write(record)
    writer.close()


def hf(documents: Documents, out: Path) -> Iterator[None]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    offsets = np.concatenate(([0], np.cumsum([len(ids) for ids in documents])))
    values = pa.array(np.concatenate(documents).astype(np.int32))
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)
    table = pa.table({"input_ids": lists, "labels": lists})
    yield
    pq.write_table(table, out / "a.parquet")


WRITERS: Mapping[str, Callable[[Documents, Path], Iterator[None]]] = {
    "megatron": megatron,
    "mds": mds,
    "xlstm": xlstm,
    "maxtext": maxtext,
    "hf": hf,
    **dict.fromkeys(("olmo", "nanogpt", "datatrove"), flat),
}


def _pieces(documents: Documents) -> Documents:
    return [ids[i : i + LONGEST] for ids in documents for i in range(0, len(ids), LONGEST)]


def main() -> None:
    to, data, index, out = sys.argv[1:]
    ids = np.fromfile(data, "<u2")
    count = int(np.fromfile(index, "<u8", 1, offset=18)[0])
    lengths = np.fromfile(index, "<i4", count, offset=34)
    documents = np.split(ids, np.cumsum(lengths)[:-1])
    steps = WRITERS[to](documents, Path(out))
    try:
        next(steps)  # all that is made ready is no part of it
    except ImportError:
        sys.exit(MISSING)
    before = resource.getrusage(resource.RUSAGE_SELF)
    next(steps, None)
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    main()
