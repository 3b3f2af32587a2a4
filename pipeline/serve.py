"""The worker's side of `execute`: take jobs from stdin, tell on stdout what happens."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from dataprep.pipeline.errors import DataprepError

Send = Callable[[dict[str, Any]], None]
RunJob = Callable[[bytes, Send], None]


def serve(begin: Callable[[], RunJob], *, parent: int) -> None:
    """`begin` loads what every job needs and gives the function that runs one."""
    _die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    # Whatever a library prints must not come between our messages.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(message: dict[str, Any]) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    try:
        run = begin()
        for line in sys.stdin.buffer:
            run(line, send)
            send({"type": "done"})
    except BrokenPipeError:
        os._exit(1)
    except DataprepError as error:
        send({"type": "error", "error": type(error).__name__, "message": str(error)})
    except MemoryError:
        send({"type": "error", "error": "ResourceError", "message": "a worker ran out of memory"})
    except Exception:
        text = f"a worker failed:\n{traceback.format_exc()}"
        send({"type": "error", "error": "DataprepError", "message": text})


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
