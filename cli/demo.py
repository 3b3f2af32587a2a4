"""`dataprep demo`: run every step on the embedded sample, each shown as a command."""

from __future__ import annotations

import io
import json
import shlex
import sys
from contextlib import nullcontext, redirect_stdout
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from dataprep.cli.inspect import inspect_command
from dataprep.cli.options import Json
from dataprep.cli.pack import pack_and_show
from dataprep.cli.show import print_json, use_colour
from dataprep.cli.stats import stats_command
from dataprep.cli.tokenize import tokenize_and_show
from dataprep.cli.verify import verify_command
from dataprep.configs.pack import PackConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import DataLoader
from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.sample import sample_path

SEQ_LEN = 1024
BATCH_SIZE = 8
SAMPLES: dict[str, dict[str, Any]] = {
    "text": {"fields": "text"},
    "chat": {"fields": "[prompt],answer"},
    "vision": {"fields_from": "fields"},
}
PACKED = "packed"
OWN = {*SAMPLES, PACKED}


def add_commands(app: typer.Typer) -> None:
    app.command("demo", epilog="Example: dataprep demo --out /tmp/demo")(demo_command)


def demo_command(
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Folder for the datasets; an earlier demo there is replaced.",
        ),
    ] = Path("dataprep-demo"),
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show nothing but the first batch.")
    ] = False,
) -> None:
    """Tokenize the embedded sample (text, chat, vision codes), pack it, and load one batch."""
    _check_own(out)
    packed = str(out / PACKED)
    with redirect_stdout(io.StringIO()) if quiet or as_json else nullcontext():
        _show_steps(out, packed, quiet=quiet or as_json)
    with DataLoader(packed, batch_size=BATCH_SIZE, seed=0, epochs=1) as loader:
        batch = next(iter(loader))
        if as_json:
            shapes = {name: [str(array.dtype), *array.shape] for name, array in batch.items()}
            print_json({"packed": packed, "steps": len(loader), "batch": shapes})
            return
        typer.echo(f"{counted(len(loader), 'step')} an epoch; the first batch:")
        for name, array in batch.items():
            first = " ".join(str(int(value)) for value in array[0, :12])
            typer.echo(f"  {name:12} {array.dtype!s:6} {array.shape!s:10} {first} …")


def _check_own(out: Path) -> None:
    """Raise a ConfigError if there is a folder that holds anything but an earlier demo."""
    others = [p for p in sorted(out.iterdir()) if p.name not in OWN] if out.is_dir() else []
    if others:
        raise ConfigError(
            f"{out} holds {others[0].name}, which is not of a demo; name a new folder with --out"
        )


def _show_steps(out: Path, packed: str, *, quiet: bool) -> None:
    """Run every command, each after it is shown."""
    for name, values in SAMPLES.items():
        given = {**values, "tokenizer": str(sample_path("tokenizer.json")), "out": str(out / name)}
        flags = [(f"--{key.replace('_', '-')}", value) for key, value in given.items()]
        file = str(sample_path(f"{name}.jsonl"))
        _heading("dataprep", "tokenize", file, *chain(*flags))
        config = TokenizeConfig.model_validate({"inputs": [file], **given})
        tokenize_and_show(config, True, as_json=False, quiet=quiet, log_format="text")
    for name in ("chat", "vision"):
        _heading("dataprep", "inspect", str(out / name), "--doc", "1")
        inspect_command(str(out / name), doc="1")
    folders = [str(out / name) for name in SAMPLES]
    _heading("dataprep", "pack", *folders, "--seq-len", str(SEQ_LEN), "--out", packed)
    settings = PackConfig(inputs=tuple(folders), out=packed, seq_len=SEQ_LEN)
    pack_and_show(settings, True, as_json=False, quiet=quiet, log_format="text")
    _heading("dataprep", "verify", packed)
    verify_command(packed, quiet=quiet)
    _heading("dataprep", "stats", packed)
    stats_command(packed, quiet=quiet)
    arguments = f"{json.dumps(packed)}, batch_size={BATCH_SIZE}, seed=0"  # without the quote '
    loading = f"next(iter(dataprep.DataLoader({arguments})))"
    _heading("python", "-c", f"import dataprep; print({loading})")


def _heading(*words: str) -> None:
    """Show a command, as it can be pasted."""
    command = shlex.join(words)
    bold, plain = ("\x1b[1m", "\x1b[0m") if use_colour(sys.stdout) else ("", "")
    typer.echo(f"\n{bold}$ {command}{plain}", color=bool(bold))
