"""Corpora: of each input the files whose records are of one kind, with a name and patterns.

    raw/                 a.jsonl, b.jsonl texts          ─► raw:  raw/*.jsonl
    raw/                 chats/a.jsonl conversations     ─► raw-conversations:  raw/chats/*.jsonl
    mix20.jsonl.gz                                       ─► mix20:  mix20.jsonl.gz

A pattern stands for exactly the files that were found, so that what joins them later is of their
kind, as far as names tell.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.sniff.findings import Finding, find, what_is_there
from dataprep.pipeline.sniff.look import Looked, LookedInput
from dataprep.pipeline.sources import find_sources
from dataprep.pipeline.sources.endings import kind_by_name
from dataprep.pipeline.sources.find import local_path
from dataprep.pipeline.sources.hub import PREFIX as HUB
from dataprep.pipeline.sources.hub import is_saved
from dataprep.pipeline.sources.known import format_with_prefix
from dataprep.pipeline.sources.patterns import fixed_folder
from dataprep.pipeline.sources.stream import is_url
from dataprep.pipeline.sources.synthetic import PREFIX as SYNTHETIC
from dataprep.pipeline.storage.manifest import kind_of
from dataprep.pipeline.types import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class SniffedCorpus:
    """Files whose records are of one kind."""

    name: str
    spec: str  # what the user named
    inputs: tuple[str, ...]  # local ones as absolute paths or patterns
    finding: Finding
    sources: tuple[Source, ...]  # that were looked into
    num_sources: int
    num_records: int  # that were looked at


def corpora_of(inputs: Sequence[LookedInput]) -> list[SniffedCorpus]:
    """Return the corpora of all inputs, in order, under names that differ."""
    found = [corpus for each in inputs for corpus in _corpora_in(each)]
    names: set[str] = set()
    named = []
    for corpus in found:
        name, number = corpus.name, 1
        while name in names:
            number += 1
            name = f"{corpus.name}-{number}"
        names.add(name)
        named.append(replace(corpus, name=name))
    return named


def _corpora_in(each: LookedInput) -> Iterator[SniffedCorpus]:
    kinds: dict[str, list[Looked]] = {}
    for one in each.looked:
        kinds.setdefault(_kind(_found_in([one])), []).append(one)
    files = _shared_out(each, kinds)
    for kind, looked in kinds.items():
        finding = _found_in(looked)
        suffix = f"-{finding.form}" if len(kinds) > 1 else ""
        yield SniffedCorpus(
            name=f"{name_of(each.spec)}{suffix}",
            spec=each.spec,
            inputs=_inputs_for(each, files[kind]),
            finding=finding,
            sources=tuple(one.source for one in looked),
            num_sources=len(files[kind]),
            num_records=sum(len(one.records) for one in looked),
        )


def _shared_out(each: LookedInput, kinds: dict[str, list[Looked]]) -> dict[str, list[str]]:
    """Return the files of each kind; those not looked into are like their neighbours."""
    of = {one.source.path: kind for kind, looked in kinds.items() for one in looked}
    if len(kinds) > 1 and _is_elsewhere(each.spec):
        raise _several_kinds(each, kinds)
    neighbours: dict[tuple[str, str], set[str]] = {}
    for path, kind in of.items():
        neighbours.setdefault(_place(path), set()).add(kind)
    files: dict[str, list[str]] = {kind: [] for kind in kinds}
    for source in each.sources:
        alike = {*kinds} if len(kinds) == 1 else neighbours.get(_place(source.path), set())
        if source.path not in of and len(alike) != 1:
            raise _several_kinds(each, kinds)
        files[of.get(source.path) or next(iter(alike))].append(source.path)
    return files


def _several_kinds(each: LookedInput, kinds: dict[str, list[Looked]]) -> ConfigError:
    told = [f"{_found_in(found).about} in {found[0].source.path}" for found in kinds.values()]
    return ConfigError(
        f"{each.spec} has records of several kinds: {', '.join(told[:3])}; name its files apart"
    )


def _found_in(looked: Sequence[Looked]) -> Finding:
    """Return what the records of some sources are; InputError if nothing can be made of them."""
    records = [record for one in looked for record in one.records]
    made = {column: kind for one in looked for column, kind in one.made.items()}
    found = find(records, made)
    if found is not None:
        return found
    raise InputError(
        f"nothing in the records of {looked[0].source.path} is a text, a conversation or codes: "
        f"{what_is_there(records) or 'they are empty'}; pictures and sounds become codes by "
        "dataprep encode"
    )


def _kind(finding: Finding) -> str:
    """Return what makes records of one kind: not whether a key may be absent, or how long codes
    are."""
    settings: dict[str, Any] = dict(finding.settings)
    settings.pop("modalities", None)
    return repr((finding.form, settings)).replace("?", "")


def _inputs_for(each: LookedInput, files: Sequence[str]) -> tuple[str, ...]:
    """Return what names these files of an input, and no others."""
    if _is_elsewhere(each.spec):
        return (each.spec,)
    path = os.path.abspath(os.path.expanduser(local_path(each.spec)))
    if len(files) == len(each.sources):
        is_plain = os.path.isdir(path) and not (is_saved(path) or kind_of(path))
        ways = [*([_patterns_below(path, files)] if is_plain else []), (path,)]
    else:
        ways = [_apart_from({s.path for s in each.sources} - {*files}, files)]
    return next((names for names in ways if _name_exactly(names, files)), tuple(files))


def _is_elsewhere(spec: str) -> bool:
    is_name = spec.startswith(HUB) or format_with_prefix(spec) or is_url(local_path(spec))
    return is_name and not os.path.lexists(spec)


def _patterns_below(folder: str, files: Iterable[str]) -> tuple[str, ...]:
    """Return a pattern for each ending of the files below a folder.

    >>> _patterns_below("/raw", ["/raw/a.jsonl", "/raw/b.jsonl.gz", "/raw/c/d.jsonl.gz"])
    ('/raw/*.jsonl', '/raw/**/*.jsonl.gz')
    """
    folders: dict[str, set[str]] = {}
    for file in files:
        folders.setdefault(_ending(file), set()).add(os.path.dirname(file))
    top = glob.escape(folder)
    return tuple(
        f"{top}/{'' if found == {folder} else '**/'}*{glob.escape(ending)}"
        for ending, found in folders.items()
    )


def _apart_from(others: Iterable[str], own: Iterable[str]) -> tuple[str, ...]:
    """Return patterns for these files where none of the others would match, else their names."""
    taken = {*map(_place, others)}
    wanted: dict[str, None] = {}
    for file in own:
        folder, ending = place = _place(file)
        pattern = f"{glob.escape(folder)}/*{glob.escape(ending)}"
        wanted[file if place in taken else pattern] = None
    return tuple(wanted)


def _place(file: str) -> tuple[str, str]:
    return os.path.dirname(file), _ending(file)


def _name_exactly(names: Sequence[str], files: Sequence[str]) -> bool:
    found = [source.path for name in names for source in find_sources(name, hashed=False)]
    return sorted(found) == sorted(files)


def _ending(file: str) -> str:
    """Return the ending that says what a file is.

    >>> _ending("/a/b.tar.jsonl.gz"), _ending("/a/B.JSONL")
    ('.jsonl.gz', '.JSONL')
    """
    name = os.path.basename(file)
    stem, last = os.path.splitext(name)
    _, before = os.path.splitext(stem)
    is_compressed = bool(before) and (kind_by_name(f"x{before}{last}") or ("", ""))[1]
    return f"{before}{last}" if is_compressed else last


def name_of(spec: str) -> str:
    """Return the name of a corpus: of a file or folder, without endings and odd characters.

    >>> name_of("raw/web pages.jsonl.gz"), name_of("raw/*.jsonl"), name_of("hf:org/name:en@train")
    ('web-pages', 'raw', 'name')
    >>> name_of("s3://bucket/web/*.jsonl"), name_of("synthetic:text?n=9"), name_of("s3://b/a.csv?v=1")
    ('web', 'text', 'a')
    """
    if _is_elsewhere(spec):
        text = re.sub(r"(?<!:)[@?].*|[*[].*", "", spec.removeprefix(HUB).removeprefix(SYNTHETIC))
        text = text if "://" in text else text.partition(":")[0]
    else:
        text = os.path.abspath(os.path.expanduser(local_path(spec)))
        if glob.has_magic(text) and not os.path.lexists(text):
            text = fixed_folder(text)
    last = text.rstrip("/").rpartition("/")[2]
    if not os.path.isdir(text):
        last = last.removesuffix(_ending(last)) or last
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", last).strip("-._")
    return plain[:60] or "data"
