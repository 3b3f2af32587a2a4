"""The worker's side of `execute`: take jobs from stdin, tell on stdout what happens.

A job ends with a commit (hash, fsync, rename), which waits for the disk more than it computes, so
it runs in a thread while the next job begins. Commits stay in order, and a job is done when its
commit is.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from dataprep.pipeline.errors import DataprepError
from dataprep.pipeline.files import disk_errors_named

Send = Callable[[dict[str, Any]], None]
Commit = Callable[[], None]
RunJob = Callable[[int, Send], Commit]  # a job is the number of a task in the plan


def serve(begin: Callable[[], RunJob], *, writes_below: Path, parent: int) -> None:
    """`begin` loads what every job needs and gives the function that runs one."""
    _die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    # Whatever a library prints must not come between our messages.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lock = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        with lock:
            channel.write(json.dumps(message) + "\n")
            channel.flush()

    def work() -> None:
        run = begin()
        with ThreadPoolExecutor(max_workers=1) as pool:
            committing: Future[None] | None = None
            for line in sys.stdin.buffer:
                commit = run(int(line), send)
                if committing is not None:
                    committing.result()
                # Its errors are told from the thread: this one may be waiting for a job meanwhile.
                committing = pool.submit(guarded, partial(finish, commit))

    def finish(commit: Commit) -> None:
        commit()
        send({"type": "done"})

    def guarded(action: Callable[[], None]) -> None:
        try:
            with disk_errors_named(writes_below):
                action()
        except BrokenPipeError:
            os._exit(1)
        except DataprepError as error:
            send({"type": "error", "error": type(error).__name__, "message": str(error)})
        except MemoryError:
            message = "a worker ran out of memory; use fewer --workers"
            send({"type": "error", "error": "ResourceError", "message": message})
        except Exception:
            text = f"a worker failed:\n{traceback.format_exc()}"
            send({"type": "error", "error": "DataprepError", "message": text})

    guarded(work)


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
