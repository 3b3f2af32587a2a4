"""Fetch a tokenizer's files from the Hugging Face hub, through its local cache.

the hub has it        downloaded, or found in the cache at the same commit
it does not answer    what the cache has; one question is asked, which takes two seconds at most
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple, TypeVar

from dataprep.pipeline.engine.near import DEFINING, near_names
from dataprep.pipeline.engine.special import CONFIG_FILES
from dataprep.pipeline.errors import ConfigError, short

ANSWER_SECONDS = 2.0
HUB_SECONDS = "HF_HUB_ETAG_TIMEOUT"  # by which users of the hub set it

CHAT_TEMPLATE = "chat_template.jinja"  # most tokenizers have theirs in tokenizer_config.json
TEMPLATES = "additional_chat_templates"  # a folder
WAYS = "Give a tokenizer.json, a folder that has one, a SentencePiece .model, org/name or bytes"

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")

T = TypeVar("T")


class UnansweredError(Exception):
    """The hub cannot be reached, or does not say whether it has a file; the message says why."""


def looks_like_hub_name(name: str) -> bool:
    """Return whether it could be the name of a repository, not a path.

    >>> [looks_like_hub_name(name) for name in ("gpt2", "org/name", "./x", "a/b/c", "x.json")]
    [True, True, False, False, False]
    """
    return bool(_HUB_NAME.fullmatch(name)) and not name.endswith((".json", ".model"))


def not_found(name: str, where: str, cure: str = WAYS) -> ConfigError:
    """Return the error for a tokenizer that is nowhere, with names like it."""
    near = near_names(name)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
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
    _answer_seconds()  # before the import, which fails for what it refuses
    from huggingface_hub.errors import HFValidationError

    unanswered = ""
    found: Path | None
    try:
        found = _ask_and_download(name)
    except HFValidationError as error:
        raise not_found(name, f"it is not a hub name: {_first_line(error)}") from None
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
        commit = _commit_with(name, defining)
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


def _commit_with(name: str, file: str) -> str | None:
    """Return the newest commit, "" if the hub does not say; None if the file is not in it."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, OfflineModeIsEnabled

    url, seconds = hf_hub_url(name, file), _answer_seconds()
    try:
        found = _within(seconds, lambda: get_hf_file_metadata(url, timeout=seconds))
    except EntryNotFoundError:
        return None
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "with an error")
        if status in (401, 403, 404):
            said = "has no such repository, or none without `hf auth login`"
        else:
            said = f"answers {status}"
        raise UnansweredError(said) from None
    except OfflineModeIsEnabled:
        raise UnansweredError("is not asked, because of HF_HUB_OFFLINE") from None
    except TimeoutError:
        raise UnansweredError(f"did not answer in {seconds:g} s ({HUB_SECONDS})") from None
    except Exception as error:  # those of the network share no base class
        raise UnansweredError(f"cannot be reached ({_first_line(error)})") from None
    return found.commit_hash or ""


def _answer_seconds() -> float:
    """Return how long the hub may take; `huggingface_hub` wants whole seconds in both variables."""
    for variable in (HUB_SECONDS, "HF_HUB_DOWNLOAD_TIMEOUT"):
        told = os.environ.get(variable)
        if told is not None and not re.fullmatch("[1-9][0-9]{0,8}", told):
            raise ConfigError(
                f"{variable} is {short(told)!r}; unset it, or set it to whole seconds"
            )
    return float(os.environ.get(HUB_SECONDS, ANSWER_SECONDS))


def _within(seconds: float, ask: Callable[[], T]) -> T:
    """Return what `ask` returns; TimeoutError if it takes longer.

    To look up the address of a host may take half a minute, whatever the timeout of a request.
    """
    answer = Future[T]()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer.result(seconds)


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
    commit, seconds = _commit_of(path), _answer_seconds()
    try:
        tree = _within(seconds, lambda: [*HfApi().list_repo_tree(name, TEMPLATES, revision=commit)])
        for file in (entry.path for entry in tree if entry.path.endswith(".jinja")):
            if not isinstance(try_to_load_from_cache(name, file, revision=commit), str):
                _download(name, file, commit)
    except EntryNotFoundError:
        return
    except Exception as error:  # the hub's errors share no base class
        raise _cannot_fetch(name, TEMPLATES, error) from error


def _cannot_fetch(name: str, file: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"cannot fetch {file} of tokenizer {name!r}: {_first_line(error)}; try again"
    )


def _download(name: str, file: str, revision: str | None) -> Path:
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(name, file, revision=revision))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return short(lines[0], 100).rstrip(".") if lines else type(error).__name__
