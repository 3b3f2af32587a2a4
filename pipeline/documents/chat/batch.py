"""Make documents of records that are conversations.

records ─► conversations ─► strings with weights ─► ids ─► weights of tokens ─► a layout
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.assemble import Layout
from dataprep.pipeline.documents.chat.bounds import TemplateFailedError
from dataprep.pipeline.documents.chat.lay import Laid, Layer
from dataprep.pipeline.documents.chat.media import Item, TextIds, split_at_media
from dataprep.pipeline.documents.chat.read import WeighedMessages, conversations_of
from dataprep.pipeline.documents.chat.refused import RefusedError
from dataprep.pipeline.documents.chat.render import Conversation, Renderer
from dataprep.pipeline.documents.chat.rules import ChatRules
from dataprep.pipeline.documents.chat.spans import SpanRules
from dataprep.pipeline.documents.chat.templates import DEFAULT, TOOL_USE
from dataprep.pipeline.documents.chat.thinking import num_left_out
from dataprep.pipeline.documents.chat.weigh import strings_at, token_turns, token_weights
from dataprep.pipeline.engine import TokenizerFiles
from dataprep.pipeline.engine.content import ContentEncoder
from dataprep.pipeline.engine.interface import EngineFailedError
from dataprep.pipeline.engine.places import PlaceFinder
from dataprep.pipeline.engine.plain import places_of
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.masks import TURN_DTYPE
from dataprep.pipeline.types import Ids, Offsets, Records


def layer_of(rules: ChatRules, *, has_tools: bool) -> Layer:
    """Return what lays out conversations; the same one for every task of a worker."""
    sources = rules.templates.sources
    name = TOOL_USE if has_tools and TOOL_USE in sources else DEFAULT
    config = rules.config
    spans = SpanRules(
        span=config.span, stop=rules.templates.stop, is_everything=config.train_on == "all"
    )
    return _layer(sources[name], config.now, spans, config.replay)


def trains_to_stop(rules: ChatRules) -> bool:
    """Return whether a token that ends a turn has loss in a plain conversation."""
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 2
    given = Conversation(messages=messages, variables=rules.templates.variables)
    try:
        laid = layer_of(rules, has_tools=False).lay(given, (0.0, 1.0) * 2)
    except (RefusedError, TemplateFailedError):
        return True  # records will be refused with the reason
    trained = [s for s, weight in zip(laid.strings, laid.weights, strict=True) if weight]
    return any(token in text for token in rules.templates.stop for text in trained)


@lru_cache(maxsize=16)
def _layer(source: str, now: str, rules: SpanRules, replay: bool) -> Layer:
    return Layer(Renderer(source, datetime.datetime.fromisoformat(now)), rules, replay=replay)


@lru_cache(maxsize=2)
def _finder(files: TokenizerFiles) -> PlaceFinder:
    return PlaceFinder(files)


@lru_cache(maxsize=2)
def _content_encoder(files: TokenizerFiles) -> ContentEncoder:
    return ContentEncoder(files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """The conversations of a batch, laid out; their texts are not encoded yet."""

    laid: Sequence[Laid]  # of each text
    texts: Sequence[str]
    owners: Sequence[int]  # the record of each text
    kept: Sequence[int]  # the record of each conversation
    items: Sequence[Sequence[Item]] | None  # of each, texts and media; None: one text each
    thinking_left_out: Sequence[int]  # of each, messages whose thinking is not written

    @property
    def firsts(self) -> Offsets:
        """Return the first text of each conversation."""
        if self.items is None:
            return np.arange(len(self.texts))
        return np.array([items[0] for items in self.items], np.int64)


def lay_out_conversations(
    records: Records, rules: ChatRules, reasons: dict[int, str]
) -> Conversations:
    """Return the conversations of the records; why others have none is added to `reasons`."""
    found: list[_LaidRecord] = []
    variables = rules.templates.variables
    for i, record in enumerate(records.as_rows()):
        if i in reasons:
            continue
        try:
            weighed = conversations_of(
                record, rules.found, rules.config, variables, drop_nulls=rules.drop_nulls
            )
            laid = [_laid(each, rules) for each in weighed]
            if not rules.found.has_weights:
                _check_weights(laid)
        except (ValueError, TemplateFailedError) as error:
            reasons[i] = str(error)
            continue
        found += [_LaidRecord(i, one, each) for one, each in zip(laid, weighed, strict=True)]
    return _conversations(found)


class _LaidRecord(NamedTuple):
    record: int
    laid: Laid
    given: WeighedMessages

    def thinking_left_out(self) -> int:
        messages, laid = self.given.conversation.messages, self.laid
        return num_left_out(
            messages, self.given.weights, laid.unwritten, laid.strings, laid.messages
        )


def _laid(each: WeighedMessages, rules: ChatRules) -> Laid:
    layer = layer_of(rules, has_tools=each.conversation.tools is not None)
    laid = layer.lay(each.conversation, each.weights, each.details)
    for number, medium in enumerate(each.media):
        if laid.media.count(number) != 1:
            raise RefusedError(f"{medium.label} is {medium.modality} that the template leaves out")
    return laid


def _conversations(found: Sequence[_LaidRecord]) -> Conversations:
    kept = [each.record for each in found]
    left_out = [each.thinking_left_out() for each in found]
    if not any(each.given.media for each in found):
        laids = [each.laid for each in found]
        return Conversations(
            laid=laids,
            texts=["".join(laid.strings) for laid in laids],
            owners=kept,
            kept=kept,
            items=None,
            thinking_left_out=left_out,
        )
    pieces: list[Laid] = []
    owners: list[int] = []
    items: list[list[Item]] = []
    for each in found:
        items.append([])
        for item in split_at_media(each.laid, each.given.media):
            if isinstance(item, Laid):
                items[-1].append(len(pieces))
                pieces.append(item)
                owners.append(each.record)
            else:
                items[-1].append(item)
    return Conversations(
        laid=pieces,
        texts=["".join(piece.strings) for piece in pieces],
        owners=owners,
        kept=kept,
        items=items,
        thinking_left_out=left_out,
    )


def _check_weights(found: Sequence[Laid]) -> None:
    odd = [w for each in found for w in each.weights if w not in (0.0, 1.0)]
    if odd:
        raise ValueError(
            f"has the loss weight {odd[0]:g}, but the first records of the input had none; "
            "set chat.weights to true"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedTexts:
    """Ids of texts with weight and turn of each, and special tokens that content spells."""

    ids: Ids
    offsets: Offsets  # i64[texts + 1]
    weights: NDArray[np.float64]
    turns: NDArray[Any]  # u32, as in `storage.turns`
    special: Offsets  # i64[texts]

    def of_texts(self) -> list[TextIds]:
        columns = (self.ids, self.weights, self.turns)
        split = (np.split(column, self.offsets[1:-1]) for column in columns)
        return list(starmap(TextIds, zip(*split, strict=True)))


def weigh(
    found: Conversations, ids: Ids, offsets: Offsets, rules: ChatRules, reasons: dict[int, str]
) -> WeighedTexts:
    """Return weights and turns of the tokens, given what an engine made of the texts."""
    lengths = [[len(s) if s.isascii() else len(s.encode()) for s in e.strings] for e in found.laid]
    stops = np.cumsum(np.fromiter(chain.from_iterable(lengths), np.int64))
    weights = np.fromiter(chain.from_iterable(e.weights for e in found.laid), np.float64)
    content = np.fromiter(chain.from_iterable(e.is_content for e in found.laid), np.bool_)
    places = _finder(rules.files).find(found.texts, ids, offsets)
    of_tokens = token_weights(places, stops, weights)
    turns = np.fromiter(chain.from_iterable(e.turns for e in found.laid), TURN_DTYPE)
    firsts = offsets_of([len(e.strings) for e in found.laid])
    turns = token_turns(places, stops, turns, firsts, offsets)
    known = np.array([t.id for t in rules.files.special if not t.is_unknown], np.uint32)
    spelled = places_of(known, ids)
    if len(spelled):  # a token may take blanks from the text beside it
        ends = (places.starts[spelled], np.maximum(places.stops[spelled] - 1, 0))
        spelled = spelled[np.any([content[strings_at(stops, end)] for end in ends], axis=0)]
    owners = np.searchsorted(offsets, spelled, side="right") - 1
    special = np.bincount(owners, minlength=len(found.laid)).astype(np.int64)
    result = WeighedTexts(ids=ids, offsets=offsets, weights=of_tokens, turns=turns, special=special)
    as_text = () if rules.config.allow_special_in_content else np.flatnonzero(special).tolist()
    again = sorted({*as_text, *_with_words(found, rules)})
    return _encoded_again(result, again, found, rules, reasons) if again else result


def _with_words(found: Conversations, rules: ChatRules) -> list[int]:
    """Return the texts in which the template writes a special token that only the model has, as a
    word: an engine splits it."""
    words = [token.content for token in rules.files.special if token.in_model]
    return [i for i, text in enumerate(found.texts) if any(word in text for word in words)]


def _encoded_again(
    weighed: WeighedTexts,
    which: Sequence[int],
    found: Conversations,
    rules: ChatRules,
    reasons: dict[int, str],
) -> WeighedTexts:
    """Return the conversations, some of them with the template's special tokens as tokens, and
    those in their content as text, unless they are allowed."""
    is_allowed = rules.config.allow_special_in_content
    encoder = _content_encoder(rules.files)
    all_ids = np.split(weighed.ids, weighed.offsets[1:-1])
    all_weights = np.split(weighed.weights, weighed.offsets[1:-1])
    all_turns = np.split(weighed.turns, weighed.offsets[1:-1])
    for i in which:
        laid = found.laid[i]
        content = (False,) * len(laid.strings) if is_allowed else laid.is_content
        try:
            encoded = encoder.encode(laid.strings, content)
        except (ValueError, EngineFailedError) as error:
            reasons[found.owners[i]] = str(error)
            continue
        all_ids[i] = encoded.ids
        all_weights[i] = token_weights(encoded.places, encoded.stops, np.array(laid.weights))
        all_turns[i] = token_turns(
            encoded.places,
            encoded.stops,
            np.array(laid.turns, TURN_DTYPE),
            np.array([0, len(laid.turns)]),
            np.array([0, len(encoded.ids)]),
        )
    return WeighedTexts(
        ids=np.concatenate(all_ids),
        offsets=offsets_of([len(each) for each in all_ids]),
        weights=np.concatenate(all_weights),
        turns=np.concatenate(all_turns),
        special=weighed.special,
    )


def bos_before_all(weighed: WeighedTexts, bos: int | None, texts: Offsets) -> WeighedTexts:
    """Return the texts, of which these begin conversations, with the BOS that a template wrote
    before all turns: some write it as a part of the first message."""
    firsts = weighed.offsets[texts][np.diff(weighed.offsets)[texts] > 0]
    own = firsts[weighed.ids[firsts] == bos] if bos is not None else firsts[:0]
    turns = weighed.turns.copy()
    turns[own] = 0
    return replace(weighed, turns=turns)


def layout_of(weighed: WeighedTexts, kept: Sequence[int], *, bos: Ids, eos: Ids) -> Layout:
    """Return the conversations as documents; a run of equal weight and turn is a part."""
    count = len(weighed.offsets) - 1
    lengths = np.diff(weighed.offsets)
    ids, weights, turns, offsets = _with_ends(weighed, lengths, bos, eos)
    starts_run = np.ones(len(ids), np.bool_)
    starts_run[1:] = (weights[1:] != weights[:-1]) | (turns[1:] != turns[:-1])
    starts_run[offsets[:-1][np.diff(offsets) > 0]] = True
    starts = np.flatnonzero(starts_run)
    none = np.zeros(count, np.int64)
    return Layout(
        texts=(),
        special=np.zeros(0, np.int64),
        column=np.zeros(0, np.int64),
        literals=ids,
        lengths=np.diff(np.append(starts, len(ids))),
        is_text=np.zeros(len(starts), np.bool_),
        weight=weights[starts],
        mask=np.zeros(len(starts), np.int8),
        is_added=np.zeros(len(starts), np.bool_),
        document_ends=np.searchsorted(starts, offsets[1:], side="left"),
        kept=np.array(kept, np.int64),
        codes_dropped=none,
        codes_thinned=none,
        turn=turns[starts],
    )


def _with_ends(
    weighed: WeighedTexts, lengths: Offsets, bos: Ids, eos: Ids
) -> tuple[Ids, NDArray[np.float64], NDArray[Any], Offsets]:
    """Return the ids with BOS, which has no loss and is before all turns, and EOS, which has loss
    and is in the last turn, around each conversation."""
    if not len(bos) and not len(eos):
        return weighed.ids, weighed.weights, weighed.turns, weighed.offsets
    before = np.repeat(weighed.offsets[:-1], len(bos))
    after = np.repeat(weighed.offsets[1:], len(eos))
    places = np.concatenate((before, after))
    count = len(lengths)
    values = np.concatenate((np.tile(bos, count), np.tile(eos, count)))
    extra = np.concatenate((np.zeros(len(before)), np.ones(len(after))))
    # At the same place the EOS of one conversation stands before the BOS of the next.
    order = np.lexsort((np.append(np.ones(len(before)), np.zeros(len(after))), places))
    ids = np.insert(weighed.ids, places[order], values[order])
    weights = np.insert(weighed.weights, places[order], extra[order])
    ends = np.maximum(weighed.offsets[1:] - 1, 0)
    last = np.where(lengths > 0, np.append(weighed.turns, 0)[ends], 0)
    of_ends = np.concatenate((np.zeros(len(before), np.int64), np.repeat(last, len(eos))))
    turns = np.insert(weighed.turns, places[order], of_ends[order])
    return ids, weights, turns, offsets_of(lengths + len(bos) + len(eos))
