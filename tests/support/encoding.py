"""Encode inside the test's own process, and what to encode."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

from dataprep.configs.encode import EncodeConfig
from dataprep.pipeline.encode.manifest import make_draft
from dataprep.pipeline.encode.plan import make_plan
from dataprep.pipeline.encode.recipe import begin_work
from dataprep.pipeline.encode.worker import EncodeTasks
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.jobs.publish import carry_out, prepare_publication
from dataprep.pipeline.storage.manifest import json_of, read_manifest


def png(seed: int, size: tuple[int, int] = (40, 30)) -> bytes:
    rng = np.random.default_rng(seed)
    image = Image.fromarray(rng.integers(0, 256, (4, 4, 3)).astype(np.uint8)).resize(size)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def encode_here(out: Path, *inputs: Path, **config: Any) -> dict[str, Any]:
    """The manifest of a dataset of codes made without workers."""
    values = {"encoder": "patches", **config, "inputs": list(map(str, inputs)), "out": str(out)}
    planned = make_plan(EncodeConfig.model_validate(values), None, 1)
    work = out / ".work"
    work.mkdir(parents=True)
    markers = begin_work(planned, work, silent).markers
    tasks = EncodeTasks(planned.plan, work)
    for task in planned.plan.tasks:
        tasks.run(task, lambda message: None)()
    carry_out(prepare_publication(make_draft(planned, work, markers), work), out, work)
    shutil.rmtree(work)
    return json_of(read_manifest(out))


def rows_of(out: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(out.glob("shards/*")) for row in pq.read_table(path).to_pylist()]
