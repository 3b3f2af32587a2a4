"""The Hugging Face hub from outside: one question that ends soon, and names like the one asked for.

    newest_commit("gpt2", "tokenizer.json")   "607a30d…"; None: the repository lacks the file
    … without a network                       UnansweredError: cannot be reached (…)
    … and the hub is overloaded               BusyError: answers 503
    nearest("gpt3", names)                    ["openai-community/gpt2"]

Downloads are left to `huggingface_hub` and `datasets`, which ask again for half a minute.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from difflib import SequenceMatcher
from typing import TypeVar

from dataprep.pipeline.errors import ConfigError, short

ANSWER_SECONDS = 2.0
HUB_SECONDS = "HF_HUB_ETAG_TIMEOUT"  # by which users of the hub set it
NUM_NEAR = 3
LIKENESS = 0.6  # of 1

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")

T = TypeVar("T")


class UnansweredError(Exception):
    """The hub cannot be reached, or does not say whether it has a file; the message says why."""


class BusyError(UnansweredError):
    """The hub is there, and may answer if it is asked again."""


def is_hub_name(name: str) -> bool:
    """Return whether it could be the name of a repository.

    >>> [is_hub_name(name) for name in ("gpt2", "org/name", "./x", "a/b/c")]
    [True, True, False, False]
    """
    return bool(_HUB_NAME.fullmatch(name))


def newest_commit(name: str, file: str, *, kind: str = "model") -> str | None:
    """Return the newest commit, "" if the hub does not say; None if the file is not in it."""
    seconds = answer_seconds()  # before the import, which fails for what it refuses
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, OfflineModeIsEnabled

    url = hf_hub_url(name, file, repo_type=kind)
    try:
        # The request may take longer, so that it is always `within` that says so.
        found = within(seconds, lambda: get_hf_file_metadata(url, timeout=2 * seconds))
    except EntryNotFoundError:
        return None
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "with an error")
        if status in (401, 403, 404):
            said = "has no such repository, or none without `hf auth login`"
            raise UnansweredError(said) from None
        raise BusyError(f"answers {status}") from None
    except OfflineModeIsEnabled:
        raise UnansweredError("is not asked, because of HF_HUB_OFFLINE") from None
    except TimeoutError:
        raise UnansweredError(f"did not answer in {seconds:g} s ({HUB_SECONDS})") from None
    except Exception as error:  # those of the network share no base class
        raise UnansweredError(f"cannot be reached ({first_line(error)})") from None
    return found.commit_hash or ""


def answer_seconds() -> float:
    """Return how long the hub may take; `huggingface_hub` wants whole seconds in both variables."""
    for variable in (HUB_SECONDS, "HF_HUB_DOWNLOAD_TIMEOUT"):
        told = os.environ.get(variable)
        if told is not None and not re.fullmatch("[1-9][0-9]{0,8}", told):
            raise ConfigError(
                f"{variable} is {short(told)!r}; unset it, or set it to whole seconds"
            )
    return float(os.environ.get(HUB_SECONDS, ANSWER_SECONDS))


def within(seconds: float, ask: Callable[[], T]) -> T:
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


def nearest(name: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that are most like a name, with or without what stands before a slash.

    >>> nearest("gpt3", ["openai-community/gpt2", "google-bert/bert-base-uncased"])
    ['openai-community/gpt2']
    """
    found = sorted((-_likeness(name, candidate), candidate) for candidate in candidates)
    return [candidate for likeness, candidate in found[:NUM_NEAR] if -likeness >= LIKENESS]


def cached_names(kind: str) -> Iterator[str]:
    """Yield the repositories of a kind, "models" or "datasets", that the local cache has."""
    from huggingface_hub.constants import HF_HUB_CACHE

    with suppress(OSError):
        for folder in os.listdir(HF_HUB_CACHE):
            found, *parts = folder.split("--")
            if found == kind:
                yield "/".join(parts)


def did_you_mean(near: list[str]) -> str:
    return f" Did you mean {' or '.join(near)}?" if near else ""


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return short(lines[0], 100).rstrip(".") if lines else type(error).__name__


def _likeness(name: str, candidate: str) -> float:
    wanted = name.lower()
    parts = {candidate.lower(), candidate.lower().rpartition("/")[2]}
    return max(SequenceMatcher(None, wanted, part).ratio() for part in parts)
