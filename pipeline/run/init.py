"""Suggest a config for some data: what it is, with which tokenizer, in rows of what length.

    raw/*.jsonl ─► sniff ─► settings ─► some documents, tokenized by them ─► seq_lens
                                   └──► `commented`: the file that `dataprep run` takes

What the settings make of the sample is what they will make of the rest: a suggestion that cannot
be run is an error here.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dataprep.configs.chat import ChatConfig
from dataprep.configs.run import RunConfig
from dataprep.configs.tokenize import InputConfig
from dataprep.pipeline.documents.chat.templates import DEFAULT, find_templates
from dataprep.pipeline.engine import resolve_tokenizer
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.guards.twice import refuse_twice
from dataprep.pipeline.run.commented import Remarks, commented
from dataprep.pipeline.sniff.groups import SniffedCorpus, corpora_of
from dataprep.pipeline.sniff.lengths import shares_around, suggested_length
from dataprep.pipeline.sniff.look import look_at
from dataprep.pipeline.sniff.tokenizers import tokenizer_near
from dataprep.pipeline.sources import all_files, format_of
from dataprep.pipeline.sources.patterns import fixed_folder
from dataprep.pipeline.tokenize.plan import FoundSources
from dataprep.pipeline.tokenize.preview import Preview, num_places, preview_of
from dataprep.pipeline.tokenize.recipe import plan_of

BYTES = "bytes"
TEMPLATE = "chatml"  # comes with dataprep
OUT = "prepared"
GIVEN = "as given"
SAMPLE_BYTES = 4 << 20  # of a corpus
LEAST_BYTES = 1 << 16  # at each place of the sample
# Keys that the file shows without setting them, with values other than the defaults.
MORE = {
    "splits": {"train": 0.99, "validation": 0.01},
    "dedup": "exact",
    "on_changed": "rebuild",
    "append": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """A corpus and what a sample of its documents is like."""

    corpus: SniffedCorpus
    preview: Preview
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A config for the data, and what it was found by."""

    corpora: tuple[Suggested, ...]
    tokenizer: str  # as the config names it
    how: str  # that tokenizer was found
    seq_len: int
    shares: Mapping[int, float]  # of documents that are whole at half the length, at it, at double
    out: str
    values: Mapping[str, Any]  # of the config
    text: str  # the config with comments
    notes: tuple[str, ...]


def suggest(
    inputs: Sequence[str], file: Path, *, tokenizer: str = "", cache_dir: Path
) -> Suggestion:
    """Suggest the config to be written to `file`, to whose folder its paths are relative."""
    looked = [look_at(spec) for spec in inputs]
    sources = ((each.spec, source) for each in looked for source in each.sources)
    named = ((spec, file) for spec, source in sources for file in all_files(source))
    refuse_twice(named, or_else="")
    corpora = corpora_of(looked)
    folder = os.path.dirname(os.path.abspath(file))
    name, how = _tokenizer(tokenizer, corpora, folder)
    own = _has_template(name, cache_dir)
    settings = {corpus.name: _settings(corpus, own) for corpus in corpora}
    made = tuple(_try(corpus, settings[corpus.name], name, cache_dir) for corpus in corpora)
    lengths = [each.preview.lengths for each in made]
    seq_len = suggested_length(lengths)
    shares = shares_around(seq_len, np.concatenate(lengths))
    own_name, out = _named_from(folder, name), _out_beside(corpora, folder)
    values: dict[str, Any] = {
        "tokenizer": own_name,
        "corpora": {
            corpus.name: {
                "inputs": [path_from(folder, path, corpus.spec) for path in corpus.inputs],
                **settings[corpus.name],
            }
            for corpus in corpora
        },
        "seq_lens": [seq_len],
        "on_error": "fail",
        "out": out,
    }
    remarks = _remarks(made, how, own, shares, seq_len, file.name, out)
    return Suggestion(
        corpora=made,
        tokenizer=own_name,
        how=how,
        seq_len=seq_len,
        shares=shares,
        out=out,
        values=values,
        text=commented(RunConfig, values, remarks, MORE),
        notes=tuple(each.left_out for each in looked if each.left_out),
    )


# --- what is found out ---


def _tokenizer(given: str, corpora: Sequence[SniffedCorpus], folder: str) -> tuple[str, str]:
    """Return the tokenizer, and how it was found."""
    if given:
        return given, GIVEN
    files = [source.path for corpus in corpora for source in corpus.sources]
    found = tokenizer_near(files, [os.getcwd(), folder])
    return (found, "found near the data") if found else (BYTES, "no tokenizer.json was found")


def _has_template(tokenizer: str, cache_dir: Path) -> bool:
    files = resolve_tokenizer(tokenizer, cache_dir)
    try:
        return DEFAULT in find_templates(ChatConfig(), files).sources
    except ConfigError:
        return False


def _settings(corpus: SniffedCorpus, has_template: bool) -> dict[str, Any]:
    settings = dict(corpus.finding.settings)
    if "chat" in settings and not has_template:
        settings["chat"] = {**settings["chat"], "template": TEMPLATE}
    return settings


def _try(
    corpus: SniffedCorpus, settings: Mapping[str, Any], tokenizer: str, cache_dir: Path
) -> Suggested:
    """Tokenize a sample of a corpus; InputError if there is none."""
    run = RunConfig.model_validate({"tokenizer": tokenizer, "corpora": {corpus.name: settings}})
    config = run.tokenize(corpus.name).model_copy(
        update={
            "inputs": (InputConfig(path=corpus.sources[0].path),),
            "on_error": "skip",
        }
    )
    found = FoundSources(sources=corpus.sources, inputs=(0,) * len(corpus.sources))
    plan = plan_of(config, cache_dir, found=found)
    preview = preview_of(plan, max(LEAST_BYTES, SAMPLE_BYTES // num_places(plan)))
    if not preview.documents:
        why = preview.first_bad or "all records are empty"
        raise InputError(f"no document can be made of {corpus.inputs[0]}: {why}")
    bad = f"{preview.bad:,} bad among the records that were read: {preview.first_bad}; see on_error"
    notes = (*corpus.finding.notes, *([bad] if preview.bad else ()))
    return Suggested(corpus=corpus, preview=preview, notes=notes)


# --- where things are ---


def path_from(folder: str, path: str, given: str) -> str:
    """Return a path as a file in `folder` names it: absolute if it was `given` so, and does not lie
    below the folder; URLs and other names as they are."""
    if not os.path.isabs(path):
        return path
    relative = os.path.relpath(path, folder)
    if not relative.startswith(".."):
        return relative
    fixed = fixed_folder(path) if glob.has_magic(path) and not os.path.lexists(path) else path
    way = os.path.join(folder, os.path.relpath(fixed, folder))
    leads_there = os.path.realpath(way) == os.path.realpath(fixed)  # not if a link is on the way
    return relative if leads_there and not os.path.isabs(os.path.expanduser(given)) else path


def _named_from(folder: str, tokenizer: str) -> str:
    """Return the tokenizer as a file in `folder` names it: paths begin with a dot or a slash."""
    if tokenizer == BYTES or not os.path.exists(os.path.expanduser(tokenizer)):
        return tokenizer
    path = os.path.abspath(os.path.expanduser(tokenizer))
    name = path_from(folder, path, tokenizer)
    return name if name.startswith((".", "/")) else f"./{name}"


def _out_beside(corpora: Sequence[SniffedCorpus], folder: str) -> str:
    """Return the folder for the datasets; not one that the inputs are searched in."""
    tops = [
        path.split("/**", 1)[0] for corpus in corpora for path in corpus.inputs if "/**" in path
    ]
    out = os.path.join(folder, OUT)
    inside = [top for top in tops if os.path.commonpath((out, top)) == top]
    return os.path.relpath(f"{min(inside, key=len)}-{OUT}", folder) if inside else OUT


# --- what the comments say ---


def _remarks(
    made: Sequence[Suggested],
    how: str,
    has_template: bool,
    shares: Mapping[int, float],
    seq_len: int,
    file: str,
    out: str,
) -> Remarks:
    told = ", ".join(f"at {n:,} {shares[n]:.1%}" for n in (seq_len // 2, seq_len * 2))
    most = f"{shares[seq_len]:.1%} of the documents in the sample"
    whole = f"{most} are whole in rows of {seq_len:,} tokens"
    remarks: dict[tuple[str, ...], tuple[str, ...]] = {
        (): (
            "yaml-language-server: $schema=dataprep.schema.json",
            f"Written by dataprep init; run it, every night if you like: dataprep run {file}",
            "An editor checks this file by `dataprep schema --out dataprep.schema.json`.",
        ),
        ("tokenizer",): (_on_tokenizer(how),),
        ("seq_lens",): (f"{whole} ({told}); longer ones are cut into several rows.",),
        ("on_error",): ("Here fail; the others are skip and quarantine.",),
        ("out",): (f"Here: {out}/{made[0].corpus.name}/tokenized, …/packed-{seq_len}",),
    }
    for each in made:
        corpus = each.corpus
        place = ("corpora", corpus.name)
        also = ", ".join(corpus.finding.also)
        remarks[place] = (
            f"{corpus.finding.about}, by {corpus.num_records:,} records",
            *([f"other keys with texts: {also}"] if also else ()),
            *each.notes,
        )
        if any(map(glob.has_magic, corpus.inputs)):
            others = "files of other endings" + ("" if _goes_down(corpus) else " or in subfolders")
            found = f"New files are found by these patterns; {others} need one of their own."
            remarks[*place, "inputs"] = (found,)
        if "chat" in corpus.finding.settings and has_template:
            own = "The tokenizer's own template is used; another: template: FILE, or chatml."
            remarks[*place, "chat"] = (own,)
        if any(format_of(source.kind).has_separator for source in corpus.sources):
            whole = "A file is one document; what separates several: text_separator: TEXT"
            remarks[*place, "fields"] = (whole,)
        if corpus.finding.form == "pairs":
            fields = str(corpus.finding.settings["fields"]).replace(",", ",'\\n',", 1)
            remarks[*place, "fields"] = (f"With a line break between them: {fields}",)
    return remarks


def _goes_down(corpus: SniffedCorpus) -> bool:
    return all("**" in path for path in corpus.inputs if glob.has_magic(path))


def _on_tokenizer(how: str) -> str:
    if how == GIVEN:
        return ""
    own = "put the one of the model that you train here"
    return f"{how[:1].upper()}{how[1:]}" + (f": {own}." if how.startswith("no ") else ".")
