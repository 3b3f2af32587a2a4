"""What records are, by their columns: the settings with which `tokenize` reads them.

    {"prompt": …, "chosen": …, "rejected": …}   preferences     objective: {kind: preference}
    {"messages": [{"role": …}]}                 conversations   chat: {form: openai, …}
    {"vision": [754, …], "text": …}             codes           fields: "[vision],text"
    {"prompt": …, "answer": …}                  pairs           fields: "[prompt],answer"
    {"id": …, "text": …}                        texts           fields: text
    {"input_ids": [15496, …]}                   ids             pretokenized: {tokens: input_ids}

The rules are asked in this order; the first that knows the records tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dataprep.pipeline.documents.chat.forms import COMPLETIONS, FORMS, LIST_KEYS, PROMPTS
from dataprep.pipeline.documents.field import Field
from dataprep.pipeline.documents.fields import parse_spec
from dataprep.pipeline.sniff.codes import GRAMMAR, is_ids, modality_of, section_for
from dataprep.pipeline.sniff.columns import NEARLY_ALL, Column, columns_of
from dataprep.pipeline.types import MODALITIES, Record

# Names that people give to the text of a document, and to the two sides of a pair.
TEXTS = re.compile(
    r"text|content|contents|body|document|article|raw_content|passage|story|code|markdown|html",
    re.I,
)
ASKED = (*PROMPTS, "instruction", "input", "source_text")
ANSWERED = (*COMPLETIONS, "target", "target_text", "reply")
CHOSEN, REJECTED = "chosen", "rejected"
BESIDE_IDS = ("labels", "attention_mask")  # lists that say something of the ids
SPEC_KEY = "fields"  # under which records may name their own fields
MOST_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What some records are."""

    form: str  # texts | pairs | conversations | preferences | codes | specs | segments | ids
    about: str  # for people
    settings: Mapping[str, Any]  # keys of the config of `tokenize`
    also: tuple[str, ...] = ()  # other keys that hold texts
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Some records, and what is known of them."""

    records: Sequence[Record]
    columns: Mapping[str, Column]
    made: Mapping[str, str] = field(default_factory=dict)  # columns of codes, by an encoder

    def texts(self) -> list[Column]:
        """Return the columns of texts that can be named in `fields`."""
        return [c for c in self.columns.values() if c.kind == "texts" and _can_be_named(c.key)]

    def text_of(self, names: Sequence[str]) -> Column | None:
        """Return the one column of texts that has one of these names, if it is the only one."""
        found = [c for c in self.texts() if c.key.lower() in names]
        return found[0] if len(found) == 1 else None


def find(records: Sequence[Record], made: Mapping[str, str] | None = None) -> Finding | None:
    """Return what the records are; None if nothing in them can be made tokens of."""
    seen = Seen(records=records, columns=columns_of(records), made=made or {})
    return next((found for rule in RULES if (found := rule(seen)) is not None), None)


def what_is_there(records: Sequence[Record]) -> str:
    """Return the keys and kinds of records that nothing was found in."""
    columns = [*columns_of(records).values()]
    told = [f"{c.key} ({c.kind})" for c in columns[:MOST_NAMED]]
    more = len(columns) - MOST_NAMED
    return ", ".join(told) + (f" and {more:,} more" if more > 0 else "")


# --- rules ---


def _preferences(seen: Seen) -> Finding | None:
    sides = [seen.columns.get(key) for key in (CHOSEN, REJECTED)]
    kinds = {side.kind if side else "" for side in sides}
    if len(kinds) != 1 or not kinds & {"texts", "objects"}:
        return None
    asked = next((key for key in ASKED if key in seen.columns), None)
    settings: dict[str, Any] = {"objective": {"kind": "preference"}}
    if asked != "prompt":
        settings["objective"]["prompt"] = asked
    of_messages = kinds == {"objects"}
    if of_messages:
        settings["chat"] = {}
    what = "messages" if of_messages else "texts"
    return Finding(
        form="preferences",
        about=f"preferences: {what} under '{CHOSEN}' and '{REJECTED}'",
        settings=settings,
        also=_others(seen, asked or ""),
    )


def _conversations(seen: Seen) -> Finding | None:
    lists = [c.key for c in seen.columns.values() if c.kind == "objects"]
    if {*lists} & {*PROMPTS, *COMPLETIONS} and _fits(seen, "completion", ""):
        return _chat({"form": "completion"}, "prompts and completions of messages")
    # Messages may also be JSON in a text, under the usual keys.
    keys = dict.fromkeys([*(key for key in LIST_KEYS if key in seen.columns), *lists])
    for form in ("openai", "sharegpt", "pairs"):
        for key in keys:
            if _fits(seen, form, key):
                return _chat({"messages": key, "form": form}, f"{form} under {key!r}")
    if _fits(seen, "alpaca", ""):
        return _chat({"form": "alpaca"}, "alpaca: 'instruction', 'input', 'output'")
    return None


def _chat(chat: Mapping[str, Any], about: str) -> Finding:
    return Finding(form="conversations", about=f"conversations, {about}", settings={"chat": chat})


def _fits(seen: Seen, form: str, key: str) -> bool:
    fits = sum(FORMS[form].find(record, key) is not None for record in seen.records)
    return fits >= NEARLY_ALL * len(seen.records)


def _specs(seen: Seen) -> Finding | None:
    """Records that name their own fields, as LWM's do."""
    if SPEC_KEY not in seen.columns or not all(map(_has_own_spec, seen.records)):
        return None
    return Finding(
        form="specs",
        about=f"records that name their fields under {SPEC_KEY!r}",
        settings={"fields_from": SPEC_KEY, **_modalities(seen)},
    )


def _has_own_spec(record: Record) -> bool:
    value = record.get(SPEC_KEY)
    specs = value if isinstance(value, list) else [value]
    try:
        fields = [f for spec in specs for f in parse_spec(str(spec), GRAMMAR)]
    except ValueError:
        return False
    keys = {key for f in fields for key in f.keys}
    return all(isinstance(spec, str) for spec in specs) and bool(keys) and keys <= record.keys()


def _segments(seen: Seen) -> Finding | None:
    column = seen.columns.get("segments")
    if column is None or column.kind != "objects":
        return None
    if not all("type" in item for value in column.values for item in value):
        return None
    return Finding(
        form="segments",
        about="interleaved documents under 'segments'",
        settings={"fields": "segments"},
    )


def _codes(seen: Seen) -> Finding | None:
    found = {c.key: m for c in seen.columns.values() if (m := modality_of(c, seen.made))}
    found = {key: m for key, m in found.items() if _is_plain_key(key)}
    if not found:
        return None
    media = sorted(found, key=lambda key: MODALITIES.index(found[key]))
    text = _best_text(seen)
    spec = [f"[{_spelled(seen.columns[key])}]" for key in media]
    spec = [*spec, _spelled(text)] if text else [*spec[:-1], spec[-1].strip("[]")]
    told = ", ".join(f"{found[key]} codes under {key!r}" for key in media)
    with_text = f" with texts under {text.key!r}" if text else ""
    return Finding(
        form="codes",
        about=f"{told}{with_text}",
        settings={"fields": ",".join(spec), **_modalities(seen)},
        also=_others(seen, *media, text.key if text else ""),
    )


def _modalities(seen: Seen) -> dict[str, Any]:
    """Return the sections of modalities whose columns do not fit their defaults."""
    sections: dict[str, dict[str, Any]] = {}
    for column in seen.columns.values():
        modality = modality_of(column, seen.made)
        if not modality:
            continue
        section = section_for(column, modality, seen.made)
        fields = [*sections.get(modality, {}).get("fields", ()), *section.get("fields", ())]
        merged = {**sections.get(modality, {}), **section, **({"fields": fields} if fields else {})}
        sections |= {modality: merged} if merged else {}
    return {"modalities": sections} if sections else {}


def _pairs(seen: Seen) -> Finding | None:
    asked, answered = seen.text_of(ASKED), seen.text_of(ANSWERED)
    if asked is None or answered is None:
        return None
    return Finding(
        form="pairs",
        about=f"pairs: {asked.key!r} without loss, then {answered.key!r}",
        settings={"fields": f"[{_spelled(asked)}],{_spelled(answered)}"},
        also=_others(seen, asked.key, answered.key),
        notes=_lacking(asked, answered),
    )


def _texts(seen: Seen) -> Finding | None:
    best = _best_text(seen)
    if best is None:
        return None
    ids = [c.key for c in seen.columns.values() if is_ids(c)]
    unused = (f"the ids under {', '.join(map(repr, ids))} are not used; texts are tokenized anew",)
    return Finding(
        form="texts",
        about=f"texts under {best.key!r}",
        settings={"fields": _spelled(best)},
        also=_others(seen, best.key),
        notes=(*_lacking(best), *(unused if ids else ())),
    )


def _ids(seen: Seen) -> Finding | None:
    """Token ids, where there is no text: with a text beside them they are made anew."""
    lists = [c.key for c in seen.columns.values() if is_ids(c) and "." not in c.key]
    tokens = next((key for key in lists if key.lower() not in BESIDE_IDS), None)
    if tokens is None:
        return None
    beside = {role: key for role in BESIDE_IDS for key in lists if key.lower() == role}
    about = ", ".join(
        [f"token ids under {tokens!r}", *(f"{r} under {k!r}" for r, k in beside.items())]
    )
    return Finding(
        form="ids",
        about=about,
        settings={"pretokenized": {"tokens": tokens, **beside}},
        notes=("they must be ids of the tokenizer that is named here",),
    )


def _best_text(seen: Seen) -> Column | None:
    """Return the column that is named like a text, else the one with the longest texts."""
    texts = [c for c in seen.texts() if not modality_of(c, seen.made)]
    named = [c for c in texts if TEXTS.fullmatch(c.key.rpartition(".")[2])]
    exact = [c for c in texts if c.key == "text"]
    longest = sorted(exact or named or texts, key=lambda c: c.mean_length, reverse=True)
    return longest[0] if longest and longest[0].mean_length else None


def _others(seen: Seen, *used: str) -> tuple[str, ...]:
    return tuple(_spelled(c) for c in seen.texts() if c.key not in used)[:MOST_NAMED]


def _lacking(*columns: Column) -> tuple[str, ...]:
    return tuple(
        f"{c.records - len(c.values):,} of the first {c.records:,} records lack {c.key!r}"
        for c in columns
        if not c.is_everywhere
    )


def _spelled(column: Column) -> str:
    """Return a key as `fields` names it; one that records may lack ends in a question mark."""
    return column.key if column.is_everywhere else f"{column.key}?"


def _can_be_named(key: str) -> bool:
    return _parsed(key) == Field(kind="text", keys=(key,))


def _is_plain_key(key: str) -> bool:
    found = _parsed(key)
    return found is not None and found.keys == (key,) and not found.optional


def _parsed(key: str) -> Field | None:
    try:
        found = [f for spec in (key, f"[{key}]") for f in parse_spec(spec, GRAMMAR)]
    except ValueError:
        return None
    return found[0] if len(found) == 2 and found[1].weight == 0 else None


RULES: tuple[Callable[[Seen], Finding | None], ...] = (
    _preferences,
    _conversations,
    _specs,
    _segments,
    _codes,
    _pairs,
    _texts,
    _ids,
)
