"""Find datasets of Hugging Face `datasets`: hub names, folders of data files or saved datasets.

    hf:NAME[:CONFIG][@SPLIT]               loaded here, then read from its Arrow files
    hf:NAME[:CONFIG][@SPLIT]?streaming=1   not loaded; workers stream its shards (streamed.py)
    FOLDER[@SPLIT]                         saved by `save_to_disk`; its Arrow files are read

The split may be left out if there is only one. NAME may be a folder of data files. `datasets` is
imported only for `hf:`; code that comes with a dataset is never run.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import xxhash

from dataprep.pipeline.errors import DataprepError, InputError
from dataprep.pipeline.guards.opening import read_bounded
from dataprep.pipeline.sources.arrow import batch_sizes
from dataprep.pipeline.sources.reached import reached
from dataprep.pipeline.sources.stream import naming
from dataprep.pipeline.types import Source

PREFIX = "hf:"
# Files that mark a folder as written by `save_to_disk`.
SAVED_MARKS = ("dataset_dict.json", "state.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubName:
    name: str
    config: str = ""
    split: str = ""
    streaming: bool = False


def parse_hub_name(spec: str) -> HubName:
    """
    >>> parse_hub_name("hf:allenai/c4:en@train?streaming=1")
    HubName(name='allenai/c4', config='en', split='train', streaming=True)
    """
    rest, _, query = spec.removeprefix(PREFIX).partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if set(options) - {"streaming"} or options.get("streaming", "1") not in ("0", "1"):
        raise InputError(f"{spec}: cannot use {query!r}; the only option is streaming=1")
    # `[^/]`, so that an `@` or `:` in a folder's name is not taken for a split or a config.
    found = re.fullmatch(r"(.+?)(?::([^/:@]+))?(?:@([^/@]+))?", rest)
    if found is None:
        raise InputError(f"{spec}: no name; write hf:NAME[:CONFIG][@SPLIT][?streaming=1]")
    name, config, split = found.groups(default="")
    if "[" in split:
        raise InputError(
            f"{spec}: a part of a split cannot be read; name the whole split and use --limit"
        )
    if os.path.isdir(name):
        name = os.path.abspath(name)
    return HubName(name=name, config=config, split=split, streaming=options.get("streaming") == "1")


class SplitError(InputError):
    """A dataset has several splits, and none or another is named."""


def choose_split(wanted: str, splits: Iterable[str], place: str) -> str:
    names = sorted(splits)
    if wanted in names:
        return wanted
    if not wanted and len(names) == 1:
        return names[0]
    problem = f"no split {wanted!r}" if wanted else "several splits"
    raise SplitError(f"{place} has {problem}; add @SPLIT, one of: {', '.join(names)}")


def is_saved(folder: str) -> bool:
    """Return whether `save_to_disk` wrote this folder."""
    return any(os.path.isfile(os.path.join(folder, name)) for name in SAVED_MARKS)


def saved_arrow_files(folder: str, split: str = "") -> list[str]:
    """Return the Arrow files of a folder that `save_to_disk` wrote, in order."""
    path = os.path.join(folder, "dataset_dict.json")
    if os.path.isfile(path):
        with _as_saved(path) as content:
            names = _names_in(content["splits"], path)
        return _files_of_split(os.path.join(folder, choose_split(split, names, folder)))
    if split:
        raise InputError(f"{folder} is one dataset without splits; leave out @{split}")
    return _files_of_split(folder)


def _files_of_split(folder: str) -> list[str]:
    path = os.path.join(folder, "state.json")
    with _as_saved(path) as content:
        names = _names_in([file["filename"] for file in content["_data_files"]], path)
        has_indices = bool(content.get("_indices_data_files"))
    if has_indices:
        raise InputError(f"{path} selects rows by an index; save it with a newer `datasets`")
    if not names:
        raise InputError(f"{folder} holds no data: {path} names no file")
    return [os.path.join(folder, name) for name in names]


@contextmanager
def _as_saved(path: str) -> Iterator[Any]:
    """Yield the content of a JSON file; an InputError if it is not used like one of its kind."""
    with naming(path):
        content = read_bounded(path)
    try:
        yield json.loads(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            f"{path} is not what `save_to_disk` writes; save the dataset again"
        ) from None


def _names_in(names: Any, path: str) -> list[str]:
    """Return a list of names; an error unless all are of something beside the file `path`."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError(names)
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise InputError(f"{path} names {name!r}, which is not in its folder")
    return names


@contextmanager
def hub_errors(place: str) -> Iterator[None]:
    """Turn whatever `datasets` raises (of many kinds) into an InputError that names the dataset."""
    try:
        yield
    except DataprepError:
        raise
    except Exception as error:
        cause = " ".join(str(error).split())
        raise InputError(f"cannot load {place}: {type(error).__name__}: {cause}") from error


def hub_arrow_files(hub: HubName) -> list[str]:
    """Load a dataset from the hub or from its cache; return its Arrow files."""
    place = f"{PREFIX}{hub.name}"
    if is_saved(hub.name):
        raise InputError(f"{place} was saved by `datasets`; name the folder itself: {hub.name}")
    with hub_errors(place), reached(hub.name, place):
        import datasets

        if not sys.stderr.isatty():
            datasets.disable_progress_bars()
        loaded = datasets.load_dataset(hub.name, hub.config or None, split=hub.split or None)
        if isinstance(loaded, dict):
            loaded = loaded[choose_split("", loaded, place)]
        files = [str(file["filename"]) for file in loaded.cache_files]
    sources = (Source(kind="arrow", path=file, num_bytes=-1, fingerprint="") for file in files)
    num_rows = sum(rows for source in sources for rows, _ in batch_sizes(source, None))
    if num_rows != len(loaded):
        raise InputError(
            f"{place} is not all of its Arrow files in order ({len(loaded)} of their {num_rows}"
            " rows); use ?streaming=1, or save it with save_to_disk and name that folder"
        )
    return files


def streamed_source(hub: HubName) -> Source:
    place = f"{PREFIX}{hub.name}"
    with hub_errors(place), reached(hub.name, place):
        import datasets

        builder = datasets.load_dataset_builder(hub.name, hub.config or None)
        split = choose_split(hub.split, builder.as_streaming_dataset(), place)
        files = (builder.config.data_files or {}).get(split)
        # (repository, commit) for files of the hub, (mtime or etag,) elsewhere
        origins = sorted(set(getattr(files, "origin_metadata", ())))
        info = (builder.info.splits or {}).get(split)
    revisions = {origin[1] for origin in origins if len(origin) == 2 and origin[0] == hub.name}
    known = [hub.name, builder.config.name, split, str(builder.hash), list(files or ()), origins]
    options = {"name": hub.name, "config": hub.config, "split": split}
    if len(revisions) == 1:
        options["revision"] = revisions.pop()
    return Source(
        kind="hf",
        path=f"{place}{':' if hub.config else ''}{hub.config}@{split}?streaming=1",
        num_bytes=(info and info.num_bytes) or -1,
        fingerprint=f"hf:{xxhash.xxh3_128_hexdigest(json.dumps(known).encode())}",
        options=options,
    )
