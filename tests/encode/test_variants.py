"""Pictures in several variants, each a record: the same for any workers, kills, limits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import dataprep
from conftest import RunCli
from dataprep.configs.encode import EncodeConfig
from dataprep.pipeline.encode.plan import make_plan
from dataprep.pipeline.encode.recipe import begin_work
from dataprep.pipeline.encode.worker import EncodeTasks, name_record
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.look.verify import verify
from support.encoding import encode_here, png, rows_of
from support.trees import tree

AUGMENT = {"variants": 3, "flip": 0.5, "crop": 0.7, "brightness": 0.3, "seed": 5}
SMALL = {"settings": {"size": "32x64", "cells": "4x8"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for i in range(7):
        (folder / f"{i}.png").write_bytes(png(i, (90, 60)))
        (folder / f"{i}.txt").write_text(f"number {i}")
    return folder


def test_every_variant_is_a_record_that_tells_its_picture(folder: Path, tmp_path: Path) -> None:
    manifest = encode_here(tmp_path / "out", folder, augment=AUGMENT, **SMALL)
    rows = rows_of(tmp_path / "out")
    assert [(r["source"], r["variant"]) for r in rows] == [
        (f"{i}.png", variant) for i in range(7) for variant in (1, 2, 3)
    ]
    assert [r["text"] for r in rows] == [f"number {i}" for i in range(7) for _ in range(3)]
    assert len({tuple(r["vision"]) for r in rows}) == 21
    assert manifest["counts"]["documents_read"] == manifest["counts"]["documents_written"] == 21
    verify(tmp_path / "out")


def test_variant_0_is_what_is_made_without_augment(folder: Path, tmp_path: Path) -> None:
    encode_here(tmp_path / "out", folder, augment={**AUGMENT, "original": True}, **SMALL)
    encode_here(tmp_path / "plain", folder, **SMALL)
    rows = rows_of(tmp_path / "out")
    assert [r["variant"] for r in rows] == [0, 1, 2, 3] * 7
    plain = [{**r, "variant": 0} for r in rows_of(tmp_path / "plain")]
    assert [r for r in rows if r["variant"] == 0] == plain
    assert "variant" not in rows_of(tmp_path / "plain")[0]


def test_a_picture_is_changed_alike_alone_and_among_others(folder: Path, tmp_path: Path) -> None:
    encode_here(tmp_path / "all", folder, augment=AUGMENT, **SMALL)
    alone = tmp_path / "pictures"
    alone.mkdir()
    (alone / "4.png").write_bytes((folder / "4.png").read_bytes())
    encode_here(tmp_path / "one", alone, augment=AUGMENT, **SMALL)
    expected = [r["vision"] for r in rows_of(tmp_path / "all") if r["source"] == "4.png"]
    assert [r["vision"] for r in rows_of(tmp_path / "one")] == expected


def test_workers_do_not_change_a_byte(folder: Path, tmp_path: Path, run_cli: RunCli) -> None:
    sets = [f"--set=augment.{key}={value}" for key, value in AUGMENT.items()]
    sets += [f"--set=settings.{key}={value}" for key, value in SMALL["settings"].items()]
    for workers in (1, 2):
        run_cli(
            *("encode", str(folder), "--encoder", "patches", "--out", str(tmp_path / f"{workers}")),
            *("--workers", str(workers), "--shard-records", "5", *sets),
        )
    assert tree(tmp_path / "1") == tree(tmp_path / "2")
    encode_here(tmp_path / "here", folder, augment=AUGMENT, shard_records=5, **SMALL)
    assert rows_of(tmp_path / "1") == rows_of(tmp_path / "here")


def planned(folder: Path, out: Path, **settings: Any) -> Any:
    values = {"encoder": "patches", "inputs": [str(folder)], "out": str(out), "augment": AUGMENT}
    return make_plan(EncodeConfig.model_validate({**values, **SMALL, **settings}), None, 1)


def test_a_task_that_was_killed_goes_on_between_two_variants(folder: Path, tmp_path: Path) -> None:
    """Shards of 4 records: the first ends after the first variant of the second picture."""
    whole, work = planned(folder, tmp_path / "out", shard_records=4), tmp_path / "work"
    work.mkdir()
    begin_work(whole, work, silent)
    first, second = whole.plan.tasks

    class KilledError(Exception):
        pass

    def kill(message: Any) -> None:
        if message.get("type") == "at" and message["span"] and message["span"][1] == (0, 6):
            raise KilledError

    with pytest.raises(KilledError):
        EncodeTasks(whole.plan, work).run(first, kill)
    assert len(list(work.glob("tasks/*.parquet"))) == 1
    for task in (first, second):
        EncodeTasks(whole.plan, work).run(task, lambda message: None)()
    encode_here(tmp_path / "plain", folder, augment=AUGMENT, shard_records=4, **SMALL)
    made = [path.read_bytes() for path in sorted(work.glob("tasks/*.parquet"))]
    assert made == [path.read_bytes() for path in sorted((tmp_path / "plain").glob("shards/*"))]
    assert name_record(whole, 0, 0, 5) == str(folder / "1.png")


def test_a_limit_counts_pictures(folder: Path, tmp_path: Path) -> None:
    encode_here(tmp_path / "out", folder, augment=AUGMENT, limit=2, **SMALL)
    assert [r["source"] for r in rows_of(tmp_path / "out")] == ["0.png"] * 3 + ["1.png"] * 3


def test_a_bad_picture_is_bad_in_every_variant(folder: Path, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    (pictures / "a.png").write_bytes(png(1)[:-30])
    (pictures / "b.png").write_bytes(png(2))
    manifest = encode_here(
        tmp_path / "out", pictures, augment=AUGMENT, on_error="quarantine", **SMALL
    )
    counts = manifest["counts"]
    assert (counts["documents_read"], counts["documents_written"]) == (6, 3)
    assert counts["documents_quarantined"] == 3
    verify(tmp_path / "out")


def test_the_estimate_counts_variants(folder: Path, tmp_path: Path, run_cli: RunCli) -> None:
    done = run_cli(
        *("encode", str(folder), "--encoder", "patches", "--out", str(tmp_path / "out")),
        *("--set", "augment.variants=3", "--dry-run", "--json"),
    )
    assert json.loads(done.stdout)["estimated_codes"] == 7 * 3 * 256


def test_another_seed_is_another_dataset(folder: Path, tmp_path: Path) -> None:
    first, second = (
        planned(folder, tmp_path / "out", augment={**AUGMENT, "seed": seed}) for seed in (1, 2)
    )
    assert first.plan.fingerprint != second.plan.fingerprint


@pytest.mark.parametrize(
    "setting",
    [{"augment": {"flip": 1}}, {"resize": "nearest"}, {"grayscale": True}, {"background": "white"}],
)
def test_settings_of_pictures_are_refused_for_sound(
    folder: Path, tmp_path: Path, setting: Any
) -> None:
    (key,) = setting
    with pytest.raises(ConfigError, match=f"{key} has no effect: encoder mulaw makes audio"):
        planned(
            folder, tmp_path / "out", encoder="mulaw", settings={}, **{"augment": None, **setting}
        )


def test_duration_is_refused_for_pictures(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="duration has no effect"):
        planned(folder, tmp_path / "out", duration=1.5)


def test_a_split_by_the_source_keeps_variants_together(folder: Path, tmp_path: Path) -> None:
    dataprep.run(
        corpora={
            "seen": {
                "encode": {
                    "inputs": [str(folder)],
                    "encoder": "patches",
                    "augment": AUGMENT,
                    **SMALL,
                },
                "fields": "[vision],text",
            }
        },
        tokenizer="bytes",
        splits={"train": 0.5, "validation": 0.5},
        split_by="key:source",
        seq_lens=[128],
        out=str(tmp_path / "run"),
        workers=1,
    )
    sides = []
    for split in ("train", "validation"):
        rows = dataprep.open_dataset(tmp_path / "run" / "seen" / f"packed-128-{split}")
        texts = " ".join(dataprep.detokenize(row["tokens"], "bytes") for row in rows)
        sides.append({int(i) for i in re.findall(r"number (\d)", texts)})
    assert sides[0] | sides[1] == set(range(7))
    assert not sides[0] & sides[1]
