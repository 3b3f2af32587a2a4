"""The folders that users name as datasets: whether one can be meant, before its manifest is read.

    data/pakced          does not exist; did you mean data/packed?
    s3://bucket/packed   is fetched into the cache folder
    ftp://host/packed    datasets are read from local disks and from buckets
    data                 is no dataset, but holds some: data/packed, data/tokenized

These are mistakes of the caller; what is wrong with a dataset itself is a CorruptError.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.guards.opening import near_path
from dataprep.pipeline.storage.fetched import fetched
from dataprep.pipeline.storage.manifest import kind_of
from dataprep.pipeline.storage.objects import is_remote

MOST_NAMED = 5


def dataset_folder(name: str | os.PathLike[str]) -> Path:
    """Return the folder of a dataset that the user names; a ConfigError if it can be none."""
    text = os.fspath(name)
    scheme = re.match(r"[a-z][a-z0-9+.-]*:/", text)  # a Path has one slash of s3:// only
    if scheme and is_remote(text):
        return fetched(text)
    if scheme and not os.path.lexists(text):
        raise ConfigError(
            f"{text} is neither on a local disk nor in a bucket (s3://, gs://, az://), where "
            "datasets are read from; copy it there, or mount it, and name that folder"
        )
    if not text:
        raise ConfigError("the name of the dataset's folder is empty")
    if not os.path.lexists(text):
        home = os.path.expanduser(text)
        if home != text and os.path.lexists(home):
            raise ConfigError(f"{text} does not exist, but {home} does: write that")
        raise ConfigError(f"{text} does not exist{near_path(text)}")
    if os.path.isfile(text):
        raise ConfigError(
            f"{text} is a file, not the folder of a dataset; of raw data, dataprep tokenize makes "
            "one"
        )
    inner = [] if kind_of(text) else _datasets_in(text)
    if inner:
        more = f" and {len(inner) - MOST_NAMED} more" if len(inner) > MOST_NAMED else ""
        named = ", ".join(inner[:MOST_NAMED])
        raise ConfigError(f"{text} is not a dataset, but holds some: {named}{more}; name one")
    return Path(text)


def refuse_remote(name: str) -> None:
    """Raise a ConfigError if what the user names cannot be the folder of a run, or lie in one."""
    if re.match(r"[a-z][a-z0-9+.-]*:/", name) and not os.path.lexists(name):
        raise ConfigError(
            f"{name} must be a local folder: what dataprep run makes is on disks, and in a bucket "
            "only tools of its store remove something"
        )


def files_here(folder: Path) -> Path:
    """Return where the files of an open dataset are here: those of a bucket are fetched."""
    return dataset_folder(folder) if is_remote(folder) else folder


def _datasets_in(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # `read_manifest` says why
        return []
    places = [os.path.join(folder, name) for name in names]
    return [place for place in places if kind_of(place) not in ("", "unfinished")]
