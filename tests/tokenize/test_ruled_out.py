"""An engine that another run has ruled out is not used to continue a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.engine import Proof, Selection, rule_out
from dataprep.pipeline.engine.fast import ADAPTERS
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.jobs.plans import read_plan, write_plan
from dataprep.pipeline.tokenize import recipe
from dataprep.pipeline.tokenize.worker import ENGINE
from support.inprocess import write_lines
from support.toy import write_toy_tokenizer


@pytest.mark.parametrize("is_ruled_out", [False, True])
def test_a_run_does_not_continue_with_an_engine_that_was_ruled_out(
    is_ruled_out: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "abc"}])
    tokenizer = write_toy_tokenizer(tmp_path)
    values = {"inputs": [str(path)], "tokenizer": str(tokenizer), "out": str(tmp_path / "out")}
    made = recipe.recipe_of(TokenizeConfig.model_validate(values), tmp_path / "cache")
    plan, work = made.plan(), tmp_path / "work"
    version = ADAPTERS["splintr"].version() or ""
    proof = Proof(
        engine="splintr", version=version, reference="r", reference_version="1", equal=True
    )
    begun = Selection(name="splintr", version=version, proof=proof)
    (work / "tasks").mkdir(parents=True)
    done = work / "tasks" / "shard"
    done.touch()
    write_plan(work, begun, ENGINE)
    if is_ruled_out:
        rule_out(begun, plan.vocabulary.files, "wrong on 'b'", cache_dir=tmp_path / "cache")
    another = Selection(name="tokenizers", version="1")
    monkeypatch.setattr(recipe, "choose_engine", lambda *args, **kwargs: another)
    notes = made.begin(plan, work, silent).begun["notes"]
    assert done.exists() != is_ruled_out
    assert read_plan(work, Selection, ENGINE).name == ("tokenizers" if is_ruled_out else "splintr")
    said = "was ruled out since this run began (wrong on 'b'), so its work was thrown away"
    assert any(said in note for note in notes) == is_ruled_out
