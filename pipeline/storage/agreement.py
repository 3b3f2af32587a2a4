"""What must go together in a manifest: parts that name, count or hash the same thing.

    fingerprint   is the hash of `identity`, which has the config and the sources
    shards        are numbered 0, 1, … of as many as there are, their other files like them;
                  those of parts are in the folders of these, in order
    counts        of shards and of sources add up to those of the dataset; of many sources the
                  manifest has but the sums, and names the files that they stand in
    dtypes        are the ones that the largest id and the longest row ask for

Needs no file but the manifest, so that every reader can ask for it; `look.verify` compares the
manifest with the data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import UnsetType

from dataprep.pipeline.errors import short
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.storage.agreed_sources import (
    wrong_inputs_in,
    wrong_origins_in,
    wrong_sources_in,
)
from dataprep.pipeline.storage.documents import ends_dtype, token_dtype
from dataprep.pipeline.storage.entries import Json, PartEntry
from dataprep.pipeline.storage.exported import wrong_counts_in, wrong_names_in
from dataprep.pipeline.storage.kinds import (
    AnyShard,
    EncodedManifest,
    ExportedManifest,
    Manifest,
    PackedManifest,
    TokenizedManifest,
    files_of,
    files_of_shard,
)
from dataprep.pipeline.storage.masks import MASKS, blocks_among
from dataprep.pipeline.storage.readme import README
from dataprep.pipeline.storage.source_sums import count_of
from dataprep.pipeline.types import MODALITIES

ERRORS = "errors.jsonl"
_FILE_NAME = re.compile(rf"([a-z]+/)?[a-z][a-z0-9_-]*\.[a-z]+|{re.escape(README)}")
_PART_NAME = re.compile(r"parts/[0-9]{5,}(-[0-9]+)?")
_SHARD_NAME = re.compile(r"[a-z]+/([a-z]+-([0-9]{5,})-of-([0-9]{5,}))\.[a-z]+")
ELSEWHERE = "documents_elsewhere"  # not selected, for no named reason
_EVERYWHERE = ("documents_read", "documents_written", "documents_quarantined")


def wrong_in(manifest: Manifest) -> str:
    """Return the first thing that does not go together, or ''."""
    return next(_all_wrong(manifest), "")


def _all_wrong(manifest: Manifest) -> Iterator[str]:
    if isinstance(manifest, ExportedManifest):
        yield from wrong_names_in(manifest)
    else:
        yield from _wrong_names(manifest)
    seen = Counter(entry.path for entry in files_of(manifest))
    yield from (f"it lists {path} twice" for path, count in seen.items() if count > 1)
    yield from _wrong_masks(manifest)
    yield from _wrong_identity(manifest)
    if isinstance(manifest, TokenizedManifest):
        yield from _wrong_ids(manifest)
        yield from _wrong_documents(manifest)
        yield from wrong_sources_in(manifest)
    elif isinstance(manifest, PackedManifest):
        yield from _wrong_ids(manifest)
        yield from _wrong_rows(manifest)
        yield from _wrong_firsts(manifest)
        yield from wrong_origins_in(manifest)
    elif isinstance(manifest, ExportedManifest):
        yield from wrong_counts_in(manifest)
    else:
        yield from _wrong_encoder(manifest)
        yield from wrong_sources_in(manifest)


# --- names ---


def _wrong_names(manifest: Manifest) -> Iterator[str]:
    parts: Sequence[PartEntry] = getattr(manifest, "parts", ())
    yield from _wrong_parts(manifest, parts)
    shards: Sequence[AnyShard] = manifest.shards
    named = list(zip(shards, _places_of(len(shards), parts), strict=False))
    entries = [(e.path, place) for shard, (place, _, _) in named for e in files_of_shard(shard)]
    for path, place in (*entries, *((entry.path, "") for entry in manifest.files)):
        if not (path.startswith(place) and _FILE_NAME.fullmatch(path.removeprefix(place))):
            yield f"it lists {short(path)!r}, which is outside the dataset or no file of one"
    for shard, (place, number, count) in named:
        own = [entry.path.removeprefix(place) for entry in files_of_shard(shard)]
        names = [_SHARD_NAME.fullmatch(path) for path in own]
        found = {(m[1], int(m[2]), int(m[3])) if m else ("", -1, -1) for m in names}
        if len(found) > 1 or next(iter(found))[1:] != (number, count):
            yield f"{shard.path} is not named as shard {number} of {count}"
    has_errors = ERRORS in {entry.path for entry in manifest.files}
    if not parts and has_errors != bool(manifest.counts.get("documents_quarantined")):
        yield f"it {'lists' if has_errors else 'lacks'} {ERRORS}, unlike its count of such records"


def _places_of(num_shards: int, parts: Sequence[PartEntry]) -> list[tuple[str, int, int]]:
    """Return for each shard the folder that it is in, its number there, and how many those are."""
    if not parts:
        return [("", number, num_shards) for number in range(num_shards)]
    return [(f"{p.path}/", number, p.shards) for p in parts for number in range(p.shards)]


def _wrong_parts(manifest: Manifest, parts: Sequence[PartEntry]) -> Iterator[str]:
    for part in parts:
        if not _PART_NAME.fullmatch(part.path):
            yield f"it lists the part {short(part.path)!r}, which is outside the dataset or no part"
    twice = [path for path, count in Counter(p.path for p in parts).items() if count > 1]
    yield from (f"it lists the part {path} twice" for path in twice)
    if parts and manifest.files:
        yield "it lists files besides those of its parts"
    for name, total in (("shards", len(manifest.shards)), ("sources", count_of(manifest.sources))):
        own = sum(getattr(part, name) for part in parts)
        if parts and own != total:
            yield f"it has {total} {name}, but its parts have {own}"


# --- identity ---


def _wrong_identity(manifest: Manifest) -> Iterator[str]:
    identity = manifest.identity
    if fingerprint(identity) != manifest.fingerprint:
        yield "its fingerprint is not the one of its identity"
    config = manifest.config
    if isinstance(manifest, PackedManifest):
        config = _object(config.get("pack"))
    yield from _differing("config", _object(identity.get("config")), config)
    if isinstance(manifest, TokenizedManifest):
        own = {key: getattr(manifest.tokenizer, key) for key in ("sha256", "bos", "eos", "pad")}
        yield from _differing("tokenizer", _object(identity.get("tokenizer")), own)
        for modality, tags in _object(identity.get("tags")).items():
            if tags != _ids_of(manifest, modality):
                yield f"its tags of {short(modality)} are not those of its identity"
    yield from wrong_inputs_in(manifest, identity.get("sources"))
    if isinstance(manifest, PackedManifest) and config.get("strategy") != manifest.strategy:
        yield "its strategy is not the one of its config"


def _differing(what: str, identity: Json, own: Json) -> Iterator[str]:
    """Yield the keys of the identity that are missing or different; those of the encoder are
    compared with its entry."""
    for key in identity:
        if key.split(" ")[0] != "encoder" and not (key in own and _within(identity[key], own[key])):
            yield f"its {what} has another {key} than its identity"


def _within(part: Any, whole: Any) -> bool:
    """Return whether a value is the same, but for keys of objects that only the whole has."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _within(part[key], whole[key]) for key in part)
    return bool(part == whole)


def _ids_of(manifest: TokenizedManifest, modality: str) -> Json | None:
    tags = manifest.tags_of(modality) if modality in MODALITIES else None
    return None if tags is None else {"start": list(tags.start), "end": list(tags.end)}


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


# --- masks and ids ---


def _wrong_masks(manifest: Manifest) -> Iterator[str]:
    unknown = [mask for mask in manifest.masks if mask not in MASKS]
    if unknown:
        yield f"it lists the mask {unknown[0]!r}, which this dataprep does not know"
    ordered = {"loss", *manifest.masks} if manifest.kind != "encoded" else set()
    if manifest.kind == "exported":
        ordered = {*manifest.masks}
    if list(manifest.masks) != [mask for mask in MASKS if mask in ordered]:
        yield f"its masks are {', '.join(manifest.masks) or 'none'}, which is not their order"
    if isinstance(manifest, PackedManifest):
        idle = [mask for mask in manifest.masks if mask in MASKS and not MASKS[mask].is_packed]
        yield from (f"it lists the mask {mask!r}, which no row has" for mask in idle)


def _wrong_ids(manifest: TokenizedManifest | PackedManifest) -> Iterator[str]:
    if manifest.token_dtype != token_dtype(manifest.max_id):
        yield f"its token_dtype is {manifest.token_dtype}, but ids go up to {manifest.max_id}"
    for mask in blocks_among(manifest.masks):
        tags = manifest.tags_of(mask)
        if tags is None:
            yield f"it has no tags for the mask {mask!r}"
        elif max((*tags.start, *tags.end), default=0) > manifest.max_id:
            yield f"its tags of {mask} are above its largest id, {manifest.max_id}"


# --- counts ---


def _wrong_documents(manifest: TokenizedManifest) -> Iterator[str]:
    shards = manifest.shards
    names = [MASKS[mask].count for mask in manifest.masks]
    yield from _missing(manifest.counts, (*_EVERYWHERE, "tokens", *names))
    yield from _unequal(
        manifest.counts,
        tokens=sum(shard.num_tokens for shard in shards),
        documents_written=sum(shard.num_documents for shard in shards),
    )
    is_keyed = manifest.keys is not None
    for shard in shards:
        if isinstance(shard.keys, UnsetType) is is_keyed:
            what = "lacks keys of documents, which" if is_keyed else "has keys of documents, which"
            yield f"{shard.path} {what} its config {'asks' if is_keyed else 'does not ask'} for"
        if len(shard.record_bytes) != shard.num_records:
            yield f"{shard.path} has another number of records than of their sizes"
        if sum(shard.record_bytes) > shard.num_bytes:
            yield f"{shard.path} is smaller than its records"


def _wrong_rows(manifest: PackedManifest) -> Iterator[str]:
    counts, shards = manifest.counts, manifest.shards
    yield from _missing(counts, (*_EVERYWHERE, "tokens", "target_tokens", "rows", "padding"))
    if manifest.ends_dtype != ends_dtype(manifest.seq_len):
        yield f"its ends_dtype is {manifest.ends_dtype}, but seq_len is {manifest.seq_len}"
    if manifest.pad > np.iinfo(manifest.token_dtype).max:
        yield f"its pad {manifest.pad} is no {manifest.token_dtype}"
    num_rows, tokens = sum(s.num_records for s in shards), sum(s.num_tokens for s in shards)
    lost = ("tokens_truncated", "tokens_dropped", "tokens_in_dropped_rows")
    left_out = ("documents_dropped", *_not_selected(manifest))
    yield from _missing(counts, left_out[1:])
    yield from _unequal(
        counts,
        tokens=tokens,
        rows=num_rows,
        padding=num_rows * (manifest.seq_len + 1) - tokens,
        documents_read=sum(source.records for source in manifest.sources),
        documents_written=counts["documents_read"] - sum(counts.get(n, 0) for n in left_out),
        tokens_read=tokens - counts.get("tokens_shared", 0) + sum(counts.get(n, 0) for n in lost),
    )
    if manifest.seq_len != _object(manifest.config.get("pack")).get("seq_len", manifest.seq_len):
        yield "its seq_len is not that of its config"


def _not_selected(manifest: PackedManifest) -> list[str]:
    """Return the names of the counts of documents that were not selected."""
    select = _object(manifest.config.get("pack")).get("select")
    if not isinstance(select, dict):
        return []
    return sorted({*map(str, _object(select.get("reasons")).values()), ELSEWHERE})


def _wrong_firsts(manifest: PackedManifest) -> Iterator[str]:
    """Yield the shards whose documents do not count from those of the parts before theirs on."""
    parts = [(part.shards, part.sources) for part in manifest.parts]
    sources, first = list(manifest.sources), 0
    wanted: list[int] = []
    for num_shards, num_sources in parts or [(len(manifest.shards), len(sources))]:
        wanted += [first] * num_shards
        first += sum(source.records for source in sources[:num_sources])
        del sources[:num_sources]
    for shard, number in zip(manifest.shards, wanted, strict=False):
        if shard.first_document != number:
            yield f"documents of {shard.path} count from {shard.first_document}, not {number}"


def _wrong_encoder(manifest: EncodedManifest) -> Iterator[str]:
    encoder, shards = manifest.encoder, manifest.shards
    size = encoder.tokens_per_frame if encoder.kind == "vision" else encoder.num_codebooks
    other = encoder.num_codebooks if encoder.kind == "vision" else encoder.tokens_per_frame
    if isinstance(size, UnsetType) or not isinstance(other, UnsetType):
        yield f"its encoder does not say how many codes a frame of {encoder.kind} has"
    if manifest.token_dtype != token_dtype(encoder.codebook_size - 1):
        yield f"its token_dtype is {manifest.token_dtype}, unlike a code of its encoder"
    said = _object(manifest.identity.get("config")).items()
    own = {k.removeprefix("encoder "): v for k, v in said if k.split(" ")[0] == "encoder"}
    if manifest.config.get("encoder") != encoder.name or own != encoder.identity:
        yield "its encoder is not that of its config"
    yield from _missing(manifest.counts, (*_EVERYWHERE, "codes", "frames"))
    yield from _unequal(
        manifest.counts,
        codes=sum(shard.num_tokens for shard in shards),
        documents_written=sum(shard.num_records for shard in shards),
        frames=sum(shard.num_tokens for shard in shards) // encoder.frame_codes,
    )


def _missing(counts: Mapping[str, int], names: Sequence[str]) -> Iterator[str]:
    yield from (f"its counts lack {name}" for name in names if name not in counts)


def _unequal(counts: Mapping[str, int], **wanted: int) -> Iterator[str]:
    for name, value in wanted.items():
        if name in counts and counts[name] != value:
            yield f"its {name} is {counts[name]}, but its parts add up to {value}"
