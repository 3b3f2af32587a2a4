"""What `dataprep encode --list` and `--convert-weights` show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

from dataprep.cli.show import print_json
from dataprep.pipeline.encoders import (
    convert_checkpoint,
    encoder_names,
    find_encoder,
    missing_packages,
)
from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.guards.extras import how_to_install


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
            state += f": {how_to_install(item['extra'])}"
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
            f"{target}: {counted(done.num_tensors, 'tensor')}, "
            f"{counted(done.num_parameters, 'parameter')}, "
            f"{counted(done.network.num_codes, 'code')}; {what}"
        )
