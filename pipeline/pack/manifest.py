"""Make the manifest of a packed dataset from the markers of its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.files import Written, lost
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.commits import Markers, shard_file, stem_of
from dataprep.pipeline.jobs.publish import Draft, Move, shard_name
from dataprep.pipeline.jobs.stored import all_at_hand
from dataprep.pipeline.jobs.workspace import Identity
from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.pack.lost import Lost, find_lost, lost_lines
from dataprep.pipeline.pack.pieces import DocumentPieces
from dataprep.pipeline.pack.plan import PackPlan, PackTask
from dataprep.pipeline.pack.worker import ENDINGS, RowsMarker, task_name
from dataprep.pipeline.storage.alike import sections_of, user_of
from dataprep.pipeline.storage.checked import read_array
from dataprep.pipeline.storage.documents import ends_dtype
from dataprep.pipeline.storage.entries import FileEntry, Json, PackedSource, RowShard
from dataprep.pipeline.storage.fetched import name_of
from dataprep.pipeline.storage.joined import contents_of
from dataprep.pipeline.storage.manifest import (
    FORMAT_VERSION,
    PackedManifest,
)
from dataprep.pipeline.storage.masks import blocks_among
from dataprep.pipeline.storage.provenance import LOST, ROW_PIECE
from dataprep.pipeline.storage.readme import README, README_TEXT
from dataprep.pipeline.storage.source_sums import num_origins

NAME = "rows"
FOLDERS = {"shards": ".arrayrecord", "index": ".npy", "provenance": ".npy"}  # with their endings
# Keys that do not decide what is written.
NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(("inputs", "out", "workers", "task_timeout", "allow_duplicates"), True),
    **dict.fromkeys(("executor", "ray_address"), True),
    "select": {"file"},  # its bytes do
}

Committed = tuple[PackTask, RowsMarker]


def identity_of(config: PackConfig, corpus: Corpus) -> Identity:
    """Return the inputs and the config that decide the dataset; the fingerprint is their hash."""
    return {
        "format_version": FORMAT_VERSION,
        "kind": "packed",
        "config": config.model_dump(mode="json", exclude=NEUTRAL),
        "sources": [manifest.fingerprint for manifest in corpus.manifests],
        # What tokenize made of its inputs may differ: records that killed its workers are left out.
        "contents": [contents_of(manifest) for manifest in corpus.manifests],
        **({"selection": corpus.selection.xxh3_128} if corpus.selection else {}),
    }


def make_draft(corpus: Corpus, plan: PackPlan, markers: Markers[RowsMarker], work: Path) -> Draft:
    committed = [(task, markers.of(task.index)[0]) for task in plan.tasks]
    full = [(task, marker) for task, marker in committed if marker.num_rows]
    every = [marker for _, marker in committed]
    left_out = corpus.selection.counts() if corpus.selection else {}
    counts = {**_counts(plan, every), **_fates(corpus, plan, committed, work), **left_out}
    counts["documents_read"] += sum(left_out.values())
    return Draft(
        manifest=_manifest(corpus, plan, every, counts),
        folders=tuple(FOLDERS),
        moves=[
            *(
                Move(
                    path=shard_file(stem_of(work, task_name(task)), 0, ENDINGS[role]),
                    name=_name(role, i, len(full)),
                    file=marker.files[role],
                )
                for i, (task, marker) in enumerate(full)
                for role in FOLDERS
            ),
            *(Move(path=work / name, name=name, file=file) for name, file in plan.origins.items()),
        ],
        texts=_texts(corpus, committed, work, counts),
    )


def _texts(
    corpus: Corpus, committed: Sequence[Committed], work: Path, counts: Mapping[str, int]
) -> dict[str, Iterable[str]]:
    """Return the card, and the list of documents of which tokens are lost, if there are any."""
    card = {README: [README_TEXT]}
    if not counts["documents_truncated"] + counts["documents_dropped"]:
        return {**card}
    windows = _windows(committed, work)
    return {**card, LOST: lost_lines(corpus, find_lost(corpus, windows, corpus.selection))}


def _windows(committed: Sequence[Committed], work: Path) -> Iterator[DocumentPieces]:
    """Yield what is in the rows of each window."""
    all_at_hand(_provenance(work, *each) for each in committed)
    for _, tasks in groupby(committed, key=lambda each: each[0].window):
        pieces = np.concatenate([_pieces(work, *each) for each in tasks])
        names = ("document", "start", "length")
        yield DocumentPieces(**{name: pieces[name].astype(np.int64) for name in names})


def _pieces(work: Path, task: PackTask, marker: RowsMarker) -> NDArray[Any]:
    """Return the pieces of a task's rows, as its worker committed them."""
    path, written = _provenance(work, task, marker)
    entry = FileEntry(path=path.name, **written.listed)
    try:
        return read_array(path.parent, entry, ROW_PIECE)
    except CorruptError:
        raise lost(path) from None


def _provenance(work: Path, task: PackTask, marker: RowsMarker) -> tuple[Path, Written]:
    path = shard_file(stem_of(work, task_name(task)), 0, ENDINGS["provenance"])
    return path, marker.files["provenance"]


def _fates(
    corpus: Corpus, plan: PackPlan, committed: Sequence[Committed], work: Path
) -> dict[str, int]:
    """Count documents by what became of them: by the plan, or, where rows of it were left out, by
    what is in the others."""
    counts = plan.counts
    dropped, truncated = counts.documents_dropped, counts.documents_truncated
    split = counts.documents_split
    if sum(marker.num_rows for _, marker in committed) < counts.rows:
        with corpus.unchanged():
            windows = _windows(committed, work)
            found = list(_sums(find_lost(corpus, windows, corpus.selection)))
        dropped, truncated, split = (sum(column) for column in zip(*found, strict=True))
    return {
        "documents_written": counts.documents - dropped,
        "documents_split": split,
        "documents_truncated": truncated,
        "documents_dropped": dropped,
    }


def _sums(found: Iterable[Lost]) -> Iterator[tuple[int, int, int]]:
    for part in found:
        num_kept = int(np.count_nonzero(part.kept))
        yield len(part.kept) - num_kept, num_kept, part.num_split


def _manifest(
    corpus: Corpus, plan: PackPlan, markers: Sequence[RowsMarker], counts: dict[str, int]
) -> PackedManifest:
    full = [marker for marker in markers if marker.num_rows]
    first, config, identity = corpus.manifests[0], plan.config, identity_of(plan.config, corpus)
    tags: dict[str, Any] = {
        modality: corpus.tags(modality) for modality in blocks_among(corpus.masks)
    }
    return PackedManifest(
        format_version=FORMAT_VERSION,
        kind="packed",
        fingerprint=fingerprint(identity),
        parents=tuple(manifest.fingerprint for manifest in corpus.manifests),
        config={
            **first.config,
            "modalities": _modalities(corpus),
            "pack": config.model_dump(mode="json", exclude=NEUTRAL),
        },
        tokenizer=first.tokenizer,
        **tags,
        sources=tuple(
            PackedSource(
                path=name_of(folder),
                bytes=sum(shard.num_bytes for shard in manifest.shards),
                fingerprint=manifest.fingerprint,
                records=manifest.counts["documents_written"],
                files=num_origins(manifest),
            )
            for folder, manifest in zip(corpus.folders, corpus.manifests, strict=True)
        ),
        seq_len=config.seq_len,
        token_dtype=corpus.token_dtype,
        ends_dtype=ends_dtype(config.seq_len),
        max_id=max(manifest.max_id for manifest in corpus.manifests),
        pad=plan.pad,
        compression=config.compression,
        strategy=config.strategy,
        masks=corpus.masks,
        shards=tuple(_shard_entry(marker, i, len(full)) for i, marker in enumerate(full)),
        counts=counts,
        identity=dict(identity),
        files=tuple(FileEntry(path=name, **file.listed) for name, file in plan.origins.items()),
    )


def _modalities(corpus: Corpus) -> Json:
    """Return the settings of each modality by the dataset whose blocks they describe."""
    used = blocks_among(corpus.masks)
    users = {modality: sections_of(user_of(modality, corpus.manifests)) for modality in used}
    own = {modality: user[modality] for modality, user in users.items() if modality in user}
    return {**sections_of(corpus.manifests[0]), **own}


def _counts(plan: PackPlan, markers: Sequence[RowsMarker]) -> dict[str, int]:
    counts = plan.counts
    num_rows = sum(marker.num_rows for marker in markers)
    num_tokens = sum(marker.num_tokens for marker in markers)
    return {
        "documents_read": counts.documents,
        "documents_written": counts.documents - counts.documents_dropped,
        "documents_empty": counts.documents_empty,
        "documents_quarantined": 0,
        "documents_split": counts.documents_split,
        "documents_truncated": counts.documents_truncated,
        "documents_dropped": counts.documents_dropped,
        "tokens": num_tokens,
        "tokens_read": counts.tokens,
        "tokens_shared": counts.tokens_shared,
        "tokens_truncated": counts.tokens_truncated,
        "tokens_dropped": counts.tokens_dropped,
        "target_tokens": sum(marker.num_targets for marker in markers),
        "padding": num_rows * plan.capacity - num_tokens,
        "rows": num_rows,
        "rows_without_target": sum(marker.rows_without_target for marker in markers),
        "rows_dropped": counts.rows - num_rows,
        "tokens_in_dropped_rows": sum(marker.tokens_in_dropped_rows for marker in markers),
        "segments": sum(marker.num_pieces for marker in markers),
        "blocks_cut": counts.blocks_cut,
    }


def _name(role: str, number: int, count: int) -> str:
    return shard_name(role, NAME, number, count, FOLDERS[role])


def _shard_entry(marker: RowsMarker, number: int, count: int) -> RowShard:
    files = {role: written.listed for role, written in marker.files.items()}
    return RowShard(
        path=_name("shards", number, count),
        first_document=0,
        num_records=marker.num_rows,
        num_tokens=marker.num_tokens,
        **files["shards"],
        index=FileEntry(path=_name("index", number, count), **files["index"]),
        provenance=FileEntry(path=_name("provenance", number, count), **files["provenance"]),
    )
