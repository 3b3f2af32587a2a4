"""`dataprep`: the commands, and the exit code of each error."""

from __future__ import annotations

import json
import signal
import sys
from types import FrameType

import typer

from dataprep.cli import demo, encode, inspect, pack, schema, stats, tokenize, verify
from dataprep.pipeline.errors import DataprepError

app = typer.Typer(
    name="dataprep",
    help="Raw corpora to training-ready shards, shards to device-sharded batches.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (tokenize, pack, inspect, verify, stats, schema, encode, demo):
    command.add_commands(app)


class Stopped(BaseException):
    """A signal as an exception, so that workers are stopped before the process exits."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        code = app(standalone_mode=False)
    except Stopped as stopped:
        (number,) = stopped.args
        _say(f"stopped by {signal.Signals(number).name}; run the same command again to continue")
        code = 128 + number
    except DataprepError as error:
        _say(str(error))
        code = error.exit_code
    except Exception as error:
        shown = getattr(error, "show", None)  # click's own usage errors print themselves
        if shown is None:
            raise
        shown()
        code = getattr(error, "exit_code", 2)
    sys.exit(code or 0)


def _say(message: str) -> None:
    if "--log-format=json" in sys.argv or _follows("--log-format", "json"):
        print(json.dumps({"level": "error", "message": message}), file=sys.stderr)
    else:
        print(f"dataprep: {message}", file=sys.stderr)


def _follows(flag: str, value: str) -> bool:
    return any(a == flag and b == value for a, b in zip(sys.argv, sys.argv[1:], strict=False))


if __name__ == "__main__":
    main()
