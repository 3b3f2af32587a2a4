"""What a store's errors mean to the user, and which are tried again.

    no answer, 5xx, a cut line       tried again, longer and longer apart; then ResourceError (6)
    no key, no right, no bucket      ConfigError (2) with the fix
    no such object                   NoSuchObjectError: what it means is known to the caller
    there already, changed           ThereAlreadyError, ChangedMeanwhileError: somebody was faster

obstore tries each request again by itself; here it is what requests make together, such as an
upload in parts or a body that ends too early.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from dataprep.pipeline.errors import ConfigError, DataprepError, ResourceError, short
from dataprep.pipeline.guards.secrets import redacted
from dataprep.pipeline.storage.objects.stores import PATIENCE, RETRY_SECONDS, patience

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 15.0  # seconds
# What machines of a cloud are asked for credentials: in vain where none are given.
_ASKS_MACHINE = re.compile(r"169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal")
# The client has one class for all that it has no other for; only its text tells a refusal.
_ABSENT = re.compile(r"status code: 404")
# Of an upload in parts whose end was done, though the answer was lost; tried again, it is whole.
_ENDED = "<Code>NoSuchUpload</Code>"
_DENIED = re.compile(r"status code: 40[13]|<Code>(Expired|Invalid)Token</Code>")  # Amazon: 400
_REFUSED = re.compile(r"status code: (?!408|429)4\d\d|incorrectly configured region|must be specif")

Result = TypeVar("Result")
_users: dict[str, int] = {}  # the process in which the client's threads are


class NoSuchObjectError(DataprepError):
    """There is no object of that name."""


class ThereAlreadyError(DataprepError):
    """There is an object of that name already, of other content."""


class ChangedMeanwhileError(DataprepError):
    """The object is not the one that was seen before."""


def tried(
    url: str,
    doing: str,
    call: Callable[[], Result],
    *,
    is_conditional: bool = False,
    is_large: bool = False,
) -> Result:
    """Return what the call returns; try again if the store does not answer, or if another writer
    was in the way of a call that `is_conditional` on nothing. One that `is_large` is many requests:
    most of them were answered before it failed."""
    from obstore.exceptions import BaseError

    _check_process()
    call = _interruptible(call)
    begun, pause, in_vain = time.monotonic(), _FIRST_PAUSE, 0.0
    while True:
        tried_at = time.monotonic()
        try:
            return call()
        except (FileNotFoundError, BaseError) as error:
            if getattr(error, "filename", None) is not None:  # a local file
                raise
            known = _known(url, doing, error, is_conditional=is_conditional)
            if known is not None:
                raise known from None
            seconds = time.monotonic() - tried_at
            in_vain += min(seconds, RETRY_SECONDS) if is_large else seconds
            if in_vain + pause > patience():
                raise ResourceError(
                    f"cannot {doing} {url}: {_said(error)}; tried for "
                    f"{time.monotonic() - begun:.0f} seconds "
                    f"({PATIENCE} sets how long); run the same command again, and it goes on"
                ) from None
        time.sleep(pause)
        in_vain += pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def _check_process() -> None:
    """Raise a ConfigError where the client would wait for ever: a fork has none of its threads."""
    if _users.setdefault("client", os.getpid()) != os.getpid():
        raise ConfigError(
            "a forked process cannot read from a store that its parent has read from: start "
            "processes with spawn (multiprocessing_context='spawn')"
        )


def _interruptible(call: Callable[[], Result]) -> Callable[[], Result]:
    """Return a call that Ctrl-C ends: in the main thread, the client would not return for it."""
    if threading.current_thread() is not threading.main_thread():
        return call

    def aside() -> Result:
        results: list[Result] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(call())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    return aside


def _known(url: str, doing: str, error: Exception, *, is_conditional: bool) -> DataprepError | None:
    """Return what an error means; None if another try may help."""
    from obstore import exceptions

    if _ENDED in str(error):
        return None
    if isinstance(error, FileNotFoundError):
        return NoSuchObjectError(f"{url} does not exist")
    if isinstance(error, exceptions.AlreadyExistsError):
        return ThereAlreadyError(f"{url} exists already") if is_conditional else None
    if isinstance(error, exceptions.PreconditionError):
        return ChangedMeanwhileError(f"{url} was changed by another writer")
    said = _said(error)
    if _ASKS_MACHINE.search(said):
        return ConfigError(
            f"cannot {doing} {url}: no credentials were found; set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, or AZURE_STORAGE_ACCOUNT_NAME "
            "and its key"
        )
    is_denied = isinstance(
        error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError
    )
    if is_denied or _DENIED.search(str(error)):
        return ConfigError(
            f"cannot {doing} {url}: the store refuses it ({said}); "
            "see that the credentials of the environment may do that"
        )
    if _ABSENT.search(said):
        return NoSuchObjectError(f"{url} does not exist")
    is_final = not isinstance(error, exceptions.GenericError | exceptions.JoinError)
    if is_final or _REFUSED.search(said):
        return ConfigError(f"cannot {doing} {url}: {said}; see docs/object-storage.md")
    return None


def _said(error: Exception) -> str:
    """Return the first line of a client's error: behind it, the parts of its program are listed."""
    return short(redacted(str(error).strip().partition("\n")[0].strip()), 300)
