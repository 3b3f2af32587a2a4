"""Make the manifest of a tokenized dataset from the markers of its tasks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from dataprep.pipeline.documents.rules import named_modalities
from dataprep.pipeline.engine import TokenizerFiles, reference_name
from dataprep.pipeline.files import Written
from dataprep.pipeline.jobs.accounts import SourceCounts, entry_of
from dataprep.pipeline.jobs.commits import Markers, shard_file, stem_of
from dataprep.pipeline.jobs.publish import ERRORS, Draft, Findings, Move, shard_name
from dataprep.pipeline.jobs.stored import all_at_hand
from dataprep.pipeline.jobs.tasks import task_name
from dataprep.pipeline.storage import source_sums
from dataprep.pipeline.storage.entries import (
    BlockTags,
    DocumentShard,
    FileEntry,
    OriginsEntry,
    TextSource,
    TokenizerEntry,
)
from dataprep.pipeline.storage.manifest import FORMAT_VERSION, TokenizedManifest
from dataprep.pipeline.storage.masks import MASKS, blocks_among
from dataprep.pipeline.storage.provenance import PIECES, SourcePiece
from dataprep.pipeline.storage.readme import README, README_TEXT
from dataprep.pipeline.storage.reasons import count_reasons
from dataprep.pipeline.storage.source_lists import texts_of
from dataprep.pipeline.tokenize.media import write_media_of
from dataprep.pipeline.tokenize.notes import notes_on_result
from dataprep.pipeline.tokenize.plan import TokenizePlan
from dataprep.pipeline.tokenize.sink import FILES, DocumentsMarker
from dataprep.pipeline.types import Task

NAME = "documents"
ENDINGS = {  # by folder
    "shards": ".arrayrecord",
    "index": ".npy",
    "provenance": ".npy",
    "keys": ".npy",  # only if documents have keys
}
# Config keys that do not concern the dataset.
UNRECORDED = {
    *("out", "workers", "task_timeout", "executor", "ray_address", "engine", "pack", "encode"),
}
CODE_COUNTS = ("codes_dropped", "codes_thinned")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Committed:
    """One committed shard of a task."""

    task: Task
    stem: Path
    number: int  # of the shard within its task
    first_piece: int  # of the task, among the pieces of all tasks
    marker: DocumentsMarker

    def path(self, role: str) -> Path:
        return shard_file(self.stem, self.number, FILES[role])


def make_draft(plan: TokenizePlan, work: Path, markers: Markers[DocumentsMarker]) -> Draft:
    committed = list(_committed(plan, work, markers))
    full = [c for c in committed if c.marker.num_documents]
    media = write_media_of(plan, work)
    sums = SourceCounts((c.marker.tallies for c in committed), len(plan.sources))
    sources = _sources(plan, sums)
    manifest = _manifest(plan, sources, sums.total(), full, media)
    first_lines = _first_lines(plan, committed)
    pieces = [
        SourcePiece(source=piece.source, first_line=first_lines[i])
        for i, piece in enumerate(p for task in plan.tasks for p in task.pieces)
    ]
    entries = _error_entries(plan, committed, first_lines)
    errors = {}
    if plan.config.on_error == "quarantine" and manifest.counts["documents_quarantined"]:
        errors = {ERRORS: (json.dumps(asdict(entry)) + "\n" for entry in entries)}
    there = [(int(s), keys) for c in committed for s, keys in c.marker.optional.items()]
    dropped = manifest.counts["documents_dropped"]
    return Draft(
        manifest=manifest,
        folders=tuple(role for role in ENDINGS if role != "keys" or plan.config.keys),
        moves=[
            *(
                Move(
                    path=c.path(role),
                    name=_name(role, i, len(full)),
                    file=c.marker.files[role],
                )
                for i, c in enumerate(full)
                for role in ENDINGS
                if role in c.marker.files
            ),
            *(Move(path=work / name, name=name, file=file) for name, file in media.items()),
        ],
        texts={
            README: [README_TEXT],
            PIECES: [msgspec.json.encode(pieces).decode()],
            **texts_of(sources),
            **errors,
        },
        found=Findings(
            reasons=tuple(count_reasons(entries)) if dropped else (),
            notes=tuple(notes_on_result(plan, sources, there)),
        ),
    )


def _manifest(
    plan: TokenizePlan,
    sources: Sequence[TextSource],
    total: Counter[str],
    full: Sequence[_Committed],
    media: Mapping[str, Written],
) -> TokenizedManifest:
    named = named_modalities(plan.config)
    tags: dict[str, Any] = {
        modality: BlockTags(**asdict(ids), named=modality in named)
        for modality, ids in plan.vocabulary.tags.items()
    }
    return TokenizedManifest(
        format_version=FORMAT_VERSION,
        kind="tokenized",
        fingerprint=plan.fingerprint,
        parents=(),
        config=plan.config.model_dump(mode="json", exclude=UNRECORDED),
        tokenizer=_tokenizer(plan.vocabulary.files),
        **tags,
        sources=source_sums.entry_of(sources),
        token_dtype=plan.token_dtype,
        max_id=plan.max_id,
        masks=plan.masks,
        shards=tuple(_shard_entry(c, i, len(full)) for i, c in enumerate(full)),
        counts=_counts(plan, total, sources),
        identity=plan.identity,
        files=tuple(FileEntry(path=name, **file.listed) for name, file in media.items()),
    )


def _sources(plan: TokenizePlan, sums: SourceCounts) -> Sequence[TextSource]:
    on_error = plan.config.on_error
    return [
        TextSource(
            **entry_of(source, total, on_error),
            input=plan.config.inputs[number].path,
            start=source.start,
            empty=total["empty"],
            tokens=total["tokens"],
        )
        for source, number, total in zip(plan.sources, plan.inputs, sums, strict=True)
    ]


def _tokenizer(files: TokenizerFiles) -> TokenizerEntry:
    return TokenizerEntry(
        sha256=files.sha256,
        kind=files.kind,
        vocab_size=files.vocab_size,
        bos=files.bos_id,
        eos=files.eos_id,
        pad=files.pad_id,
        engine=reference_name(files),
    )


def _committed(
    plan: TokenizePlan, work: Path, markers: Markers[DocumentsMarker]
) -> Iterator[_Committed]:
    first_piece = 0
    for task in plan.tasks:
        stem = stem_of(work, task_name(task))
        for number, marker in enumerate(markers.of(task.index)):
            yield _Committed(
                task=task, stem=stem, number=number, first_piece=first_piece, marker=marker
            )
        first_piece += len(task.pieces)


def _name(role: str, number: int, count: int) -> str:
    return shard_name(role, NAME, number, count, ENDINGS[role])


def _shard_entry(c: _Committed, number: int, count: int) -> DocumentShard:
    files = {role: written.listed for role, written in c.marker.files.items()}
    keys = files.get("keys")
    return DocumentShard(
        path=_name("shards", number, count),
        num_records=len(c.marker.record_bytes),
        num_documents=c.marker.num_documents,
        num_tokens=c.marker.num_tokens,
        **files["shards"],
        record_bytes=tuple(c.marker.record_bytes),
        index=FileEntry(path=_name("index", number, count), **files["index"]),
        provenance=OriginsEntry(
            path=_name("provenance", number, count),
            first_piece=c.first_piece,
            **files["provenance"],
        ),
        keys=FileEntry(path=_name("keys", number, count), **keys) if keys else UNSET,
    )


def _counts(
    plan: TokenizePlan, total: Counter[str], sources: Sequence[TextSource]
) -> dict[str, int]:
    counts = {
        "records_read": total["records"],
        "documents_read": total["read"],
        "documents_written": total["written"],
        "documents_empty": total["empty"],
        "documents_quarantined": sum(s.quarantined for s in sources),
        "documents_dropped": sum(s.dropped for s in sources),
        "documents_split": 0,
        "documents_truncated": total["truncated"],
        "tokens": total["tokens"],
        "target_tokens": total["target_tokens"],
        "padding": 0,
        "documents_with_special": total["with_special"],
        "special_in_text": total["special_in_text"],
    }
    if any(plan.chats):
        counts["thinking_left_out"] = total["thinking_left_out"]
    if plan.config.budget is not None:
        counts["tokens_truncated"] = total["tokens_cut"]
    names = [MASKS[mask].count for mask in plan.masks[1:]]
    if blocks_among(plan.masks):
        names += CODE_COUNTS
    counts |= {name: total[name] for name in names}
    gone = ("written", "empty", "quarantined", "dropped")
    assert counts["documents_read"] == sum(counts[f"documents_{key}"] for key in gone)
    return counts


def _first_lines(plan: TokenizePlan, committed: Sequence[_Committed]) -> list[int]:
    """Return how many lines of its source are before each piece, in the order of all tasks."""
    lines: dict[int, int] = {}  # by piece, among all
    for c in committed:
        for place, count in c.marker.lines.items():
            lines[c.first_piece + int(place)] = count
    result: list[int] = []
    # Lines so far, by source.
    total = Counter({i: source.lines_before for i, source in enumerate(plan.sources)})
    for i, piece in enumerate(p for task in plan.tasks for p in task.pieces):
        result.append(total[piece.source])
        total[piece.source] += lines.get(i, 0)
    return result


@dataclass(slots=True, kw_only=True)
class _ErrorEntry:
    """A line of errors.jsonl."""

    file: str
    line: int | None
    byte_offset: int
    reason: str
    excerpt: str


def _error_entries(
    plan: TokenizePlan, committed: Sequence[_Committed], first_lines: Sequence[int]
) -> Iterator[_ErrorEntry]:
    all_at_hand((c.path("errors"), c.marker.files["errors"]) for c in committed)
    for c in committed:
        c.marker.files["errors"].check_at(c.path("errors"))
        with open(c.path("errors"), encoding="utf-8") as file:
            for line in file:
                error = json.loads(line)
                source = c.task.pieces[error["piece"]].source
                yield _ErrorEntry(
                    file=plan.sources[source].path,
                    line=first_lines[c.first_piece + error["piece"]] + error["line"] + 1,
                    byte_offset=error["offset"],
                    reason=error["reason"],
                    excerpt=error["excerpt"],
                )
        c.marker.files["errors"].check_untouched_at(c.path("errors"))
