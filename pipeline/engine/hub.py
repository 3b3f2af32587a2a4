"""Fetch a tokenizer's files from the Hugging Face hub, through its local cache."""

from __future__ import annotations

import re
from pathlib import Path

from dataprep.pipeline.engine.special import CONFIG_FILES
from dataprep.pipeline.errors import ConfigError

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def looks_like_hub_name(name: str) -> bool:
    """Return whether it could be the name of a repository, not a path.

    >>> [looks_like_hub_name(name) for name in ("gpt2", "org/name", "./x", "a/b/c", "x.json")]
    [True, True, False, False, False]
    """
    return bool(_HUB_NAME.fullmatch(name)) and not name.endswith((".json", ".model"))


def fetch(name: str, tried: Path) -> Path:
    """Download the defining file of hub repository `name`, and its config files beside it."""
    failures = []
    for defining in ("tokenizer.json", "tokenizer.model"):
        try:
            path = _download(name, defining, None)
        except Exception as error:  # the hub's errors share no base class
            failures.append(f"{defining}: {_first_line(error)}")
            continue
        _fetch_configs(name, path)
        return path
    raise ConfigError(
        f"tokenizer {name!r} not found: no file or folder at {tried}, and none on the hub "
        f"({'; '.join(failures)}); check the name, the network and HF_HUB_OFFLINE, or give a local "
        "path"
    )


def _fetch_configs(name: str, path: Path) -> None:
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    # snapshots/COMMIT/tokenizer.json: all files must be of the same commit.
    commit = path.parent.name
    for config in CONFIG_FILES:
        try:
            _download(name, config, commit)
        except LocalEntryNotFoundError as error:
            # Offline, a file that the cache lacks counts as missing. Online this is a network
            # fault, and without the file other special ids would be found.
            if not HF_HUB_OFFLINE:
                raise ConfigError(
                    f"cannot fetch {config} of tokenizer {name!r}: {_first_line(error)}; try again"
                ) from error
        except EntryNotFoundError:
            continue
        except Exception as error:
            raise ConfigError(
                f"cannot fetch {config} of tokenizer {name!r}: {_first_line(error)}; try again"
            ) from error


def _download(name: str, file: str, revision: str | None) -> Path:
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(name, file, revision=revision))


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__} {str(error).strip().splitlines()[0] if str(error) else ''}"
