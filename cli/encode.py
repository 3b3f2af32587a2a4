"""The command that makes codes of raw media: encode."""

from __future__ import annotations

import shlex
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from dataprep.cli.make import DryRun, Json, Log, Overwrite, Quiet, Set, cache_dir
from dataprep.cli.show import Progress, megabytes, print_json
from dataprep.configs import EncodeConfig, load_config
from dataprep.configs.base import Loudness, OnError
from dataprep.configs.model import ModalitiesConfig
from dataprep.pipeline.encode.plan import EncodePlan
from dataprep.pipeline.encode.recipe import encode, plan_of
from dataprep.pipeline.encoders import (
    convert_checkpoint,
    encoder_names,
    find_encoder,
    missing_packages,
)
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.tokenize.recipe import Outcome

EXAMPLE = (
    "Example: dataprep encode photos/ --encoder patches --out data/codes, then "
    "dataprep tokenize data/codes --fields '[vision],text' --tokenizer T --out data/tokens"
)


def add_commands(app: typer.Typer) -> None:
    app.command("encode", epilog=EXAMPLE)(encode_command)


def about(key: str) -> str:
    return EncodeConfig.model_fields[key].description or ""


def encode_command(
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help=about("inputs"))
    ] = None,
    encoder: Annotated[str | None, typer.Option(help=about("encoder"))] = None,
    out: Annotated[str | None, typer.Option(help=about("out"))] = None,
    weights: Annotated[str | None, typer.Option(help=about("weights"))] = None,
    config: Annotated[
        str | None,
        typer.Option("--config", "-c", help="YAML or TOML file; its section `encode` is used."),
    ] = None,
    sets: Set = None,
    column: Annotated[str | None, typer.Option(help=about("column"))] = None,
    into: Annotated[str | None, typer.Option(help=about("into"))] = None,
    keep: Annotated[list[str] | None, typer.Option(metavar="GLOB", help=about("keep"))] = None,
    fps: Annotated[float | None, typer.Option(help=about("fps"))] = None,
    frames: Annotated[int | None, typer.Option(help=about("frames"))] = None,
    exif_rotate: Annotated[
        bool | None, typer.Option("--exif-rotate/--no-exif-rotate", help=about("exif_rotate"))
    ] = None,
    loudness: Annotated[Loudness | None, typer.Option(help=about("loudness"))] = None,
    limit: Annotated[int | None, typer.Option(help=about("limit"))] = None,
    shard_records: Annotated[int | None, typer.Option(help=about("shard_records"))] = None,
    on_error: Annotated[OnError | None, typer.Option(help=about("on_error"))] = None,
    max_errors: Annotated[
        str | None, typer.Option(metavar="N|P%", help=about("max_errors"))
    ] = None,
    allow_empty: Annotated[
        bool | None, typer.Option("--allow-empty", help=about("allow_empty"))
    ] = None,
    workers: Annotated[int | None, typer.Option(help=about("workers"))] = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    list_encoders: Annotated[
        bool, typer.Option("--list", help="Show the encoders with their settings, and end.")
    ] = False,
    convert_weights: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="IN OUT",
            help="Make safetensors of LWM's pickled VQGAN checkpoint, and end; runs none of it.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    log_format: Log = "text",
) -> None:
    """Make discrete codes of pictures, videos or sounds, as Parquet that tokenize reads.

    Captions (a .txt or .json beside a picture, other columns of a table) go along. Run the same
    command again to go on with an interrupted run; on a finished dataset it does nothing.
    """
    given = locals()
    if list_encoders:
        show_encoders(as_json=as_json)
        return
    if convert_weights is not None:
        convert(*convert_weights, as_json=as_json, quiet=quiet)
        return
    flags = {
        key: value
        for key, value in given.items()
        if key in EncodeConfig.model_fields and value not in ([], ())
    }
    settings = load_config(
        EncodeConfig,
        file=config,
        section="encode",
        sets=sets or (),
        flags=flags,
    )
    if dry_run:
        show_plan(plan_of(settings, cache_dir()).plan, as_json=as_json)
        return
    progress = Progress(quiet=quiet, log_format=log_format)
    try:
        outcome = encode(settings, cache_dir=cache_dir(), overwrite=overwrite, report=progress)
    finally:
        progress.close()
    if as_json:
        print_json(summary(outcome))
    elif not quiet:
        show_outcome(outcome, progress.seconds)


def show_encoders(*, as_json: bool) -> None:
    found = [described(name) for name in encoder_names()]
    if as_json:
        print_json(found)
        return
    for item in found:
        if "problem" in item:
            typer.echo(f"{item['name']}: {item['problem']}")
            continue
        state = "ready" if not item["missing"] else f"needs {', '.join(item['missing'])}"
        if item["missing"] and item["extra"]:
            state += f": pip install 'dataprep-jax[{item['extra']}]'"
        typer.echo(f"{item['name']}  {item['kind']}, {state}\n  {item['about']}")
        for setting, value in item["settings"].items():
            typer.echo(f"  --set settings.{setting}={value['default']}  {value['about']}")


def described(name: str) -> dict[str, Any]:
    try:
        spec = find_encoder(name)
    except ConfigError as error:  # a plugin that fails to load must not hide the others
        return {"name": name, "problem": str(error)}
    return {
        "name": spec.name,
        "kind": spec.kind,
        "about": spec.about,
        "takes_weights": spec.takes_weights,
        "packages": list(spec.packages),
        "missing": missing_packages(spec),
        "extra": spec.extra,
        "settings": settings_of(spec.settings),
    }


def settings_of(model: type[BaseModel]) -> dict[str, dict[str, Any]]:
    return {
        name: {"default": field.default, "about": field.description or ""}
        for name, field in model.model_fields.items()
    }


def convert(source: str, target: str, *, as_json: bool, quiet: bool) -> None:
    done = convert_checkpoint(Path(source), Path(target))
    if as_json:
        print_json(
            {
                "out": target,
                "tensors": done.num_tensors,
                "parameters": done.num_parameters,
                "codebook_size": done.network.num_codes,
                "can_decode": done.network.has_decoder,
            }
        )
    elif not quiet:
        what = "encoder and decoder" if done.network.has_decoder else "encoder only"
        typer.echo(
            f"{target}: {done.num_tensors} tensors, {done.num_parameters:,} parameters, "
            f"{done.network.num_codes:,} codes; {what}"
        )


def show_plan(plan: EncodePlan, *, as_json: bool) -> None:
    result: dict[str, Any] = {
        "sources": [{"path": s.path, "kind": s.kind, "bytes": s.num_bytes} for s in plan.sources],
        "tasks": len(plan.tasks),
        "bytes": sum(task.num_bytes for task in plan.tasks),
        "column": plan.config["into"],
        "fingerprint": plan.fingerprint,
    }
    if as_json:
        print_json(result)
        return
    for source in plan.sources:
        size = megabytes(source.num_bytes) if source.num_bytes >= 0 else "size unknown"
        typer.echo(f"{source.path}  {source.kind}  {size}")
    typer.echo(
        f"{len(plan.sources)} sources, {megabytes(result['bytes'])} in {len(plan.tasks)} tasks; "
        f"codes of {plan.config['encoder']} into column {plan.config['into']}; nothing written"
    )


def summary(outcome: Outcome) -> dict[str, Any]:
    manifest = outcome.manifest
    return {
        "out": str(outcome.out),
        "was_complete": outcome.was_complete,
        "fingerprint": manifest["fingerprint"],
        "shards": len(manifest["shards"]),
        "counts": manifest["counts"],
        "columns": manifest["columns"],
    }


def show_outcome(outcome: Outcome, seconds: float) -> None:
    manifest = outcome.manifest
    counts = manifest["counts"]
    if outcome.was_complete:
        typer.echo(
            f"nothing to do: {outcome.out} is complete "
            f"({counts['documents_written']:,} records, {counts['codes']:,} codes)"
        )
        return
    rest = "".join(
        f"; {counts[f'documents_{name}']:,} {name}"
        for name in ("quarantined", "dropped")
        if counts[f"documents_{name}"]
    )
    typer.echo(
        f"{outcome.out}: {counts['documents_written']:,} records, {counts['frames']:,} frames, "
        f"{counts['codes']:,} codes in {len(manifest['shards'])} shards{rest}; {seconds:.1f} s, "
        f"{counts['frames'] / max(seconds, 1e-9):,.1f} frames/s"
    )
    typer.echo(f"next: {next_command(outcome)}")


def next_command(outcome: Outcome) -> str:
    """How to tokenize these codes; what their encoder has to say, tokenize reads by itself."""
    manifest = outcome.manifest
    into, kind = manifest["config"]["into"], manifest["encoder"]["kind"]
    others = [
        name for name, type in manifest["columns"].items() if type == "string" and name != "source"
    ]
    spec = ",".join([f"[{into}]" if others else into, *others[:1]])
    words = ["dataprep", "tokenize", str(outcome.out), "--fields", spec]
    if not any(fnmatchcase(into, glob) for glob in _globs(kind)):
        words += ["--set", f"modalities.{kind}.fields=[{into}]"]
    return shlex.join([*words, "--tokenizer", "T", "--out", "DIR"])


def _globs(kind: str) -> tuple[str, ...]:
    """Names of fields that are taken for codes of this kind."""
    found: tuple[str, ...] = getattr(ModalitiesConfig(), kind).fields
    return found
