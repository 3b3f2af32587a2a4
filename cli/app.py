"""The commands by task, and the app that runs the one that is called.

A command's module is imported when it is called: together they take half a second.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated

import typer

from dataprep import __version__
from dataprep.cli.help import PlainCommand, by_task

# What `dataprep --help` says of each command, by task; a command's module has its name.
TASKS = {
    "Make datasets": {
        "init": "Look at data, and write a commented config for run.",
        "run": "The whole chain of a config, as its data grows: what cron calls.",
        "estimate": "Tokens, rows, disk, time and cost of a config, from a sample.",
        "encode": "Pictures, videos and sounds to discrete codes.",
        "tokenize": "Raw corpora to tokenized shards, with masks and a manifest.",
        "pack": "Tokenized documents to rows of a fixed length.",
        "export": "A dataset to the files of another trainer.",
        "finalize": "Publish what the elements of a task array have made (--task).",
        "submit": "Jobs of Slurm or Kubernetes that make the datasets of a config.",
        "forget": "Take documents out of what run made, in a new generation.",
        "clean": "Remove unfinished work and what only old generations need.",
    },
    "Look at them": {
        "inspect": "Show a document or a row, decoded.",
        "stats": "Counts, lengths, padding, vocabulary.",
        "log": "The generations of a dataset: when, and what came in.",
        "verify": "Check everything: hashes, counts, ids, boundaries, masks.",
    },
    "Get started": {
        "demo": "The whole way from the embedded sample to a batch, shown.",
        "presets": "List the configs that come with dataprep, or show one.",
        "schema": "The JSON Schema of the config, for editors.",
    },
}
COMMANDS = {name: about for commands in TASKS.values() for name, about in commands.items()}
COMPLETED = "_DATAPREP_COMPLETE"  # set by the shell when it asks for completions


def app_for(words: list[str]) -> typer.Typer:
    """Return the app, with the command that the words call; the others have their help only."""
    app = typer.Typer(
        name="dataprep",
        help="Raw corpora to training-ready shards, shards to device-sharded batches.",
        epilog="Example: dataprep demo",
        cls=by_task(TASKS),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def common(
        version: Annotated[
            bool,
            typer.Option(
                "--version",
                "-V",
                help="Show the version and exit.",
                is_eager=True,
                callback=_show_version,
            ),
        ] = False,
    ) -> None:
        pass

    called = next((word for word in words if not word.startswith("-")), None)
    for name, about in COMMANDS.items():
        if name == called:
            import_module(f"dataprep.cli.{name}").add_commands(app)
        else:
            app.command(name, help=about)(lambda: None)
    for command in app.registered_commands:
        if not issubclass(command.cls or object, PlainCommand):
            command.cls = PlainCommand
    return app


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"dataprep {__version__}")
        raise typer.Exit


def called_words() -> list[str]:
    """Return what is called: by the user, or in the line that the shell wants to complete."""
    if os.environ.get(COMPLETED):
        return os.environ.get("COMP_WORDS", os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()[1:]
    return sys.argv[1:]
