"""`dataprep`: run a command; the exit code of each error.

All that takes time is imported after `stopping` has taken over the signals.
"""

from __future__ import annotations

import errno
import gc
import os
import sys

from dataprep.cli.stopping import run_stoppable
from dataprep.cli.streams import ReaderGone, keep_streams, say, wants_json
from dataprep.pipeline.errors import ConfigError, DataprepError, ResourceError, lacks_memory


def main() -> None:
    # OpenBLAS starts a thread for each core on import, and sends SIGINT if there is no memory for
    # one; no command needs them, and workers are as many as cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with keep_streams():
        code = _run()
    sys.exit(code)


def _run() -> int:
    try:
        return run_stoppable(_run_command)
    except ReaderGone:
        return 0
    except DataprepError as error:
        say(str(error))
        return error.exit_code
    except Exception as error:
        if lacks_memory(error):
            say("out of memory; use fewer --workers, or give the command more memory")
            return ResourceError.exit_code
        if isinstance(error, FileNotFoundError) and not _has_working_folder():
            say("the working folder was deleted; go to one that exists, or give absolute paths")
            return ConfigError.exit_code
        if isinstance(error, UnicodeEncodeError) or _is_bad_name(error):
            say(f"a name or a value cannot be used: {error}")
            return ConfigError.exit_code
        return _told(error)


def _told(error: Exception) -> int:
    """Print an error of click, which is one of usage, or one that nobody expected."""
    message = getattr(error, "format_message", None)
    if message is not None:
        say(message()) if wants_json() else error.show()  # type: ignore[attr-defined]
        return getattr(error, "exit_code", ConfigError.exit_code)
    import traceback

    if wants_json():
        say(f"unexpected: {error!r}", traceback=traceback.format_exc())
    else:
        traceback.print_exc()  # here, where streams hide credentials
    return 1


def _run_command() -> int:
    gc.disable()  # imports leave no garbage: what they make stays to the end
    from dataprep.cli.app import app_for, called_words

    app = app_for(called_words())
    gc.freeze()
    gc.enable()
    code: int = app(standalone_mode=False, prog_name="dataprep") or 0
    sys.stdout.flush()
    return code


def _has_working_folder() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _is_bad_name(error: Exception) -> bool:
    """Return whether the system refuses a path that the user gave, before it looks for it."""
    return isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ELOOP)


if __name__ == "__main__":
    main()
