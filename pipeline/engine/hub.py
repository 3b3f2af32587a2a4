"""Fetch a tokenizer's files from the Hugging Face hub, through its local cache.

the hub has it        downloaded, or found in the cache at the same commit
it does not answer    what the cache has; one question is asked, which takes two seconds at most
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from dataprep.pipeline.engine.models import DEFINING
from dataprep.pipeline.engine.near import near_names
from dataprep.pipeline.engine.special import CONFIG_FILES
from dataprep.pipeline.errors import ConfigError, short
from dataprep.pipeline.guards.hub import (
    UnansweredError,
    answer_seconds,
    did_you_mean,
    first_line,
    is_hub_name,
    newest_commit,
    within,
)

CHAT_TEMPLATE = "chat_template.jinja"  # most tokenizers have theirs in tokenizer_config.json
TEMPLATES = "additional_chat_templates"  # a folder
WAYS = "Give a tokenizer.json, a folder that has one, a SentencePiece .model, org/name or bytes"


def looks_like_hub_name(name: str) -> bool:
    """Return whether it could be the name of a repository, not a path.

    >>> [looks_like_hub_name(name) for name in ("gpt2", "org/name", "./x", "a/b/c", "x.json")]
    [True, True, False, False, False]
    """
    return is_hub_name(name) and not name.endswith((".json", ".model"))


def not_found(name: str, where: str, cure: str = WAYS) -> ConfigError:
    """Return the error for a tokenizer that is nowhere, with names like it."""
    hint = did_you_mean(near_names(name))
    place = Path(os.path.expanduser(name)).absolute()
    return ConfigError(
        f"tokenizer {short(name)!r} not found: no file or folder at {place}, and {where}.{hint} "
        f"{cure}"
    )


class Fetched(NamedTuple):
    path: Path  # the defining file, with its config files beside it
    note: str  # what to say if the hub was not asked, or did not answer; else ""


def fetch(name: str) -> Fetched:
    """Return the defining file of hub repository `name`."""
    answer_seconds()  # before the import, which fails for what it refuses
    from huggingface_hub.errors import HFValidationError

    unanswered = ""
    found: Path | None
    try:
        found = _ask_and_download(name)
    except HFValidationError as error:
        raise not_found(name, f"it is not a hub name: {first_line(error)}") from None
    except UnansweredError as error:
        unanswered = str(error)
        found = _find_in_cache(name)
    if found is None:
        where = f"not in the local cache of the Hugging Face hub, which {unanswered}"
        raise not_found(name, where, "Check the name and the network, or give a local path")
    _fetch_configs(name, found, unanswered)
    return Fetched(found, _note(name, found, unanswered) if unanswered else "")


def _note(name: str, found: Path, unanswered: str) -> str:
    return (
        f"the Hugging Face hub {unanswered}, so {name} is taken from its local cache, at commit "
        f"{_commit_of(found)}; the hub may have a newer one"
    )


def _commit_of(path: Path) -> str:
    return path.parent.name  # snapshots/COMMIT/tokenizer.json


def _ask_and_download(name: str) -> Path:
    """Return the defining file at the newest commit."""
    from huggingface_hub import try_to_load_from_cache

    for defining in DEFINING:
        commit = newest_commit(name, defining)
        if commit is None:
            continue
        cached = try_to_load_from_cache(name, defining, revision=commit) if commit else None
        # By its branch: then the cache knows which commit that was, when the hub cannot be asked.
        if isinstance(cached, str):
            return Path(cached)
        try:
            return _download(name, defining, None)
        except Exception as error:  # the hub's errors share no base class
            raise _cannot_fetch(name, defining, error) from error
    raise not_found(name, f"{name} on the hub has neither {' nor '.join(DEFINING)}")


def _find_in_cache(name: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    cached = (try_to_load_from_cache(name, defining) for defining in DEFINING)
    return next((Path(path) for path in cached if isinstance(path, str)), None)


def _fetch_configs(name: str, path: Path, unanswered: str) -> None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    commit = _commit_of(path)  # all files must be of the same one
    for config in (*CONFIG_FILES, CHAT_TEMPLATE):
        # Not None: the file, or that the commit has none.
        if try_to_load_from_cache(name, config, revision=commit) is not None:
            continue
        # Offline, a file that the cache lacks counts as missing. Else, without the file, other
        # special ids might be found.
        if HF_HUB_OFFLINE or (unanswered and config == CHAT_TEMPLATE):
            continue
        if unanswered:
            raise ConfigError(
                f"cannot fetch {config} of tokenizer {name!r}: the hub {unanswered}; try again, or "
                "set HF_HUB_OFFLINE=1 if what the cache has is all there is"
            )
        try:
            _download(name, config, commit)
        except LocalEntryNotFoundError as error:
            raise _cannot_fetch(name, config, error) from error
        except EntryNotFoundError:
            continue
        except Exception as error:
            raise _cannot_fetch(name, config, error) from error


def fetch_templates(name: str, path: Path) -> None:
    """Fetch the chat templates of a tokenizer, found at `path`, that have files of their own.

    The hub is asked which there are; where it was not asked for the tokenizer either, or `name` is
    none of its names, what is there is all there is.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.errors import EntryNotFoundError

    if HF_HUB_OFFLINE or os.path.exists(os.path.expanduser(name)) or not looks_like_hub_name(name):
        return
    commit, seconds = _commit_of(path), answer_seconds()
    try:
        tree = within(seconds, lambda: [*HfApi().list_repo_tree(name, TEMPLATES, revision=commit)])
        for file in (entry.path for entry in tree if entry.path.endswith(".jinja")):
            if not isinstance(try_to_load_from_cache(name, file, revision=commit), str):
                _download(name, file, commit)
    except EntryNotFoundError:
        return
    except Exception as error:  # the hub's errors share no base class
        raise _cannot_fetch(name, TEMPLATES, error) from error


def _cannot_fetch(name: str, file: str, error: Exception) -> ConfigError:
    return ConfigError(f"cannot fetch {file} of tokenizer {name!r}: {first_line(error)}; try again")


def _download(name: str, file: str, revision: str | None) -> Path:
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(name, file, revision=revision))
