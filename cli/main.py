"""`dataprep`: the commands, and the exit code of each error.

A command's module is imported when it is called: together they take half a second. So is all else
that takes time, after `stopping` has taken over the signals.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

from dataprep.cli.stopping import stop_in_order
from dataprep.cli.streams import ReaderGone, keep_streams, say
from dataprep.pipeline.errors import ConfigError, DataprepError, ResourceError, lacks_memory

if TYPE_CHECKING:
    import typer

# What `dataprep --help` says of each command; its module has the same name.
COMMANDS = {
    "tokenize": "Raw corpora to tokenized shards, with masks and a manifest.",
    "pack": "Tokenized documents to rows of a fixed length.",
    "encode": "Pictures, videos and sounds to discrete codes.",
    "inspect": "Show a document or a row, decoded.",
    "stats": "Counts, lengths, padding, vocabulary.",
    "verify": "Check everything: hashes, counts, ids, boundaries, masks.",
    "schema": "The JSON Schema of the config, for editors.",
    "demo": "The whole way from the embedded sample to a batch, shown.",
}


def app_for(words: list[str]) -> typer.Typer:
    """Return the app, with the command that the words call; the others have their help only."""
    import typer

    app = typer.Typer(
        name="dataprep",
        help="Raw corpora to training-ready shards, shards to device-sharded batches.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    called = next((word for word in words if not word.startswith("-")), None)
    for name, about in COMMANDS.items():
        if name == called:
            from importlib import import_module

            import_module(f"dataprep.cli.{name}").add_commands(app)
        else:
            app.command(name, help=about)(lambda: None)
    return app


def main() -> None:
    # OpenBLAS starts a thread for each core on import, and sends SIGINT if there is no memory for
    # one; no command needs them, and workers are as many as cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with keep_streams():
        code = _run()
    sys.exit(code)


def _run() -> int:
    try:
        with stop_in_order():
            code = app_for(sys.argv[1:])(standalone_mode=False) or 0
            sys.stdout.flush()
        return code
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
        shown = getattr(error, "show", None)  # click's own usage errors print themselves
        if shown is None:
            import traceback

            traceback.print_exc()  # here, where streams hide credentials
            return 1
        shown()
        return getattr(error, "exit_code", 2)


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
