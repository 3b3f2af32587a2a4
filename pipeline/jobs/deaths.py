"""How workers die, in the words of errors and of errors.jsonl.

exit code -11     SIGSEGV          "a worker died of SIGSEGV on this record"
exit code 12      out of memory    a worker that runs out of memory exits with this code
killed by us      no progress      --task-timeout has passed without a sign of life
"""

from __future__ import annotations

import errno
import signal
from dataclasses import dataclass

OUT_OF_MEMORY = errno.ENOMEM  # the exit code of a worker

_NAMES = {number.value: number.name for number in signal.Signals}
_LACKED_MEMORY = "ran out of memory or was killed"
_MEMORY_HINT = "use fewer --workers, or give the run more memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    cause: str  # for the error of a task
    reason: str  # for the error of a record; never depends on settings like --task-timeout
    hint: str = ""
    lacks_memory: bool = False
    may_be_poison: bool = True  # whether a record may be the reason
    is_loss: bool = False  # its machine went, or what started it there: no try of a job


STOPPED = Death(
    cause="stopped by SIGSTOP",
    reason="was stopped",
    hint="let nothing stop workers",
    may_be_poison=False,
)
STUCK = Death(
    cause="no sign of life",
    reason="hung",
    hint="if it only takes long, set a longer --task-timeout",
)
# Which of the two a record meets is chance: the reason in errors.jsonl must not tell.
NO_MEMORY = Death(
    cause="out of memory", reason=_LACKED_MEMORY, hint=_MEMORY_HINT, lacks_memory=True
)
KILLED = Death(
    cause="SIGKILL",
    reason=_LACKED_MEMORY,
    hint=f"the system may be out of memory: {_MEMORY_HINT}",
    lacks_memory=True,
)


def death_of(code: int | None, last_words: str) -> Death:
    """Return the death of a worker that ended by itself; `last_words`: the exception, if known."""
    if last_words:
        return Death(cause=last_words, reason=f"failed ({last_words})")
    if code is None:
        return Death(cause="exit code unknown", reason="died")
    if code in (OUT_OF_MEMORY, -signal.SIGKILL):
        return NO_MEMORY if code == OUT_OF_MEMORY else KILLED
    if code < 0:
        name = _NAMES.get(-code, f"signal {-code}")  # those of real time have no names
        return Death(cause=name, reason=f"died of {name}")
    return Death(cause=f"exit code {code}", reason=f"ended with exit code {code}")
