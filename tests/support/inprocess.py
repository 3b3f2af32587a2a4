"""Tokenize inside the test's own process: the worker's one function, without the process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import open_dataset
from dataprep.pipeline.engine import load_reference
from dataprep.pipeline.jobs.commits import Markers, make_tasks_folder, stem_of
from dataprep.pipeline.jobs.plans import write_plan
from dataprep.pipeline.jobs.poison import Poison, poison_name
from dataprep.pipeline.jobs.publish import carry_out, prepare_publication
from dataprep.pipeline.jobs.tasks import task_name
from dataprep.pipeline.storage.manifest import json_of, read_manifest
from dataprep.pipeline.tokenize import plan_of
from dataprep.pipeline.tokenize.manifest import make_draft
from dataprep.pipeline.tokenize.plan import special_in_text
from dataprep.pipeline.tokenize.sample import SampledEngine
from dataprep.pipeline.tokenize.sink import DocumentsMarker
from dataprep.pipeline.tokenize.told import task_plan
from dataprep.pipeline.tokenize.worker import run_task


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One document as plain lists."""

    tokens: list[int]
    loss: list[int]
    vision: list[int] | None = None
    audio: list[int] | None = None


def write_lines(path: Path, records: Sequence[Any]) -> Path:
    """A str is a line as it is, anything else a JSON record."""
    lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def tokenize_here(out: Path, *, poison: Poison | None = None, **config: Any) -> dict[str, Any]:
    """The manifest of a dataset made without workers; `poison`: what earlier tries found."""
    whole = TokenizeConfig.model_validate({**config, "out": str(out)})
    plan = plan_of(whole, out.with_name(f"{out.name}-cache"))
    work = out / ".work"
    work.mkdir(parents=True)
    make_tasks_folder(work)
    if poison is not None:
        write_plan(work, poison, poison_name(0))
    in_text = special_in_text(plan.config, plan.vocabulary)
    engine = SampledEngine(load_reference(plan.vocabulary.files), in_text)
    for task in plan.tasks:
        run_task(task_plan(plan, task), plan, engine, work, lambda message: None)()
    markers = Markers([stem_of(work, task_name(task)) for task in plan.tasks], DocumentsMarker)
    carry_out(prepare_publication(make_draft(plan, work, markers), work), out, work)
    shutil.rmtree(work)
    return json_of(read_manifest(out))


def documents_of(
    folder: Path, tokenizer: Path, records: Sequence[Any], **config: Any
) -> list[Seen]:
    folder.mkdir(exist_ok=True)
    path = write_lines(folder / "in.jsonl", records)
    tokenize_here(folder / "out", inputs=[str(path)], tokenizer=str(tokenizer), **config)
    return seen_in(folder / "out")


def seen_in(dataset: Path) -> list[Seen]:
    opened = open_dataset(dataset)
    masks = ("loss", "vision", "audio")
    return [
        Seen(
            tokens=document["tokens"].tolist(),
            **{
                mask: document[f"{mask}_mask"].astype(int).tolist()
                for mask in masks
                if f"{mask}_mask" in document
            },
        )
        for document in opened[list(range(len(opened)))]
    ]
