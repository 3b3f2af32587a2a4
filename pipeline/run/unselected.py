"""Why it is to be found out anew which documents of a corpus are packed.

rows by a selection, and one by the other dedup     dedup: 'none' -> 'exact'
other rates, or selections that are lost            splits has other rates than before, or …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dataprep.pipeline.errors import counted
from dataprep.pipeline.run.parts import STATE
from dataprep.pipeline.run.selections import FOLDER, Selections
from dataprep.pipeline.run.versions import origin_of
from dataprep.pipeline.storage.entries import Json
from dataprep.pipeline.storage.kinds import PackedManifest, TokenizedManifest

DAMAGED = "which documents it has is to be found out anew: that is damaged"
Parts = Sequence[tuple[Path, TokenizedManifest]]


def why_unselected(
    selections: Selections, corpus: str, parts: Parts, rows: Sequence[PackedManifest]
) -> str:
    """Return why there are no selections of these parts yet, or rows had some that are not needed
    any more; "" if all is there. `rows` are what is packed of one split."""
    made = [origin_of(part)["identity"] for part in rows]
    selected = [identity.get("selection", "") for identity in made]
    now = selections.config.dedup
    other = "none" if now == "exact" else "exact"
    dedup = f"dedup: {other!r} -> {now!r}"
    if not selections.are_needed:
        return dedup if any(selected) else ""
    known = [selections.hash_of(corpus, *part) for part in parts]
    if all(known) and known[: len(rows)] == selected:
        return ""
    if not rows:
        return "it is not there yet"
    if not all(_is_of(*pair) for pair in zip(made, parts, strict=False)):
        return "its documents were made anew"
    if not any(selected):
        return dedup
    if len(parts) > len(rows):
        return f"{counted(len(parts) - len(rows), 'part')} more"
    config = selections.config.model_copy(update={"dedup": other})
    before = replace(selections, config=config)
    if [before.hash_of(corpus, *part) for part in parts] == selected:
        return dedup
    lost = f"{Path(config.out) / STATE / FOLDER} is lost"
    return f"splits has other rates than before, or {lost}" if config.splits else lost


def _is_of(rows: Json, documents: tuple[Path, TokenizedManifest]) -> bool:
    """Return whether rows with this identity were made of a part, or of what it first was."""
    _, part = documents
    return rows["sources"][0] in (part.fingerprint, origin_of(part)["fingerprint"])
