"""Proofs that come with the package are used where they fit, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dataprep.pipeline.engine import (
    Proof,
    Selection,
    Sweep,
    resolve_tokenizer,
    rule_out,
    select_engine,
)
from dataprep.pipeline.engine.fast import ADAPTERS
from dataprep.pipeline.engine.proof import prove, shipped
from dataprep.pipeline.engine.proof.prove import proof_key
from dataprep.pipeline.engine.proof.record import ProofKey
from dataprep.pipeline.engine.proof.shipped import (
    FILE,
    Shipment,
    ShippedProof,
    shipped_proof,
    write_shipment,
)
from support.toy import write_toy_tokenizer

KEY = ProofKey(
    tokenizer_sha256="ab" * 32,
    engine="fastokens",
    version="1.2",
    reference="tokenizers",
    reference_version="0.21",
    sweep=Sweep(),
)
PROOF = Proof(
    engine="fastokens",
    version="1.2",
    reference="tokenizers",
    reference_version="0.21",
    equal=True,
    bad_code_points=((7, 9),),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shipped.json"
    other = replace(PROOF, engine="splintr", equal=False, why_not="because")
    proofs = [ShippedProof(tokenizer="a/b", sha256="ab" * 32, proof=p) for p in (PROOF, other)]
    write_shipment(tuple(proofs), path)
    return path


def test_a_shipped_proof_is_found_by_all_that_it_depends_on(file: Path) -> None:
    assert shipped_proof(KEY, file) == PROOF
    assert len(file.read_bytes().splitlines()) == 4  # one proof to a line


@pytest.mark.parametrize(
    "change",
    [
        {"tokenizer_sha256": "cd" * 32},
        {"engine": "gigatoken"},
        {"version": "1.3"},
        {"reference": "sentencepiece"},
        {"reference_version": "0.22"},
        {"sweep": Sweep(seed=1)},
        {"sweep_version": -1},
    ],
)
def test_a_shipped_proof_of_anything_else_is_ignored(change: dict[str, object], file: Path) -> None:
    assert shipped_proof(replace(KEY, **change), file) is None  # type: ignore[arg-type]


def test_a_proof_of_another_machine_or_a_damaged_file_is_ignored(
    file: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    shipment = msgspec.json.decode(file.read_bytes(), type=Shipment)
    elsewhere.write_bytes(msgspec.json.encode(replace(shipment, machine="Plan9 vax")))
    damaged = tmp_path / "damaged.json"
    damaged.write_bytes(file.read_bytes()[:-20])
    for path in (elsewhere, damaged, tmp_path / "missing.json"):
        assert shipped_proof(KEY, path) is None


def test_a_shipped_proof_serves_at_once_until_it_is_ruled_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = resolve_tokenizer(str(write_toy_tokenizer(tmp_path)))
    key = proof_key("fastokens", files, Sweep(), ADAPTERS)
    proof = replace(PROOF, version=key.version, reference_version=key.reference_version)
    own = tmp_path / "own.json"
    write_shipment((ShippedProof(tokenizer="a/b", sha256=files.sha256, proof=proof),), own)
    monkeypatch.setattr(prove, "shipped_proof", lambda key: shipped_proof(key, own))
    cache = tmp_path / "cache"

    def select(proves: bool) -> Selection:
        return select_engine("auto", files, cache_dir=cache, proves=proves)

    assert select(proves=True) == select(proves=False)
    assert (select(proves=False).name, select(proves=False).proof) == ("fastokens", proof)
    rule_out(select(proves=False), files, "it was wrong", cache_dir=cache)
    assert select(proves=False).name == "tokenizers"


def test_the_file_of_the_package_is_whole_and_small() -> None:
    shipment = msgspec.json.decode(FILE.read_bytes(), type=Shipment)
    assert shipment.sweep == Sweep()
    assert shipment.sweep_version == shipped.SWEEP_VERSION, "run scripts/ship_proofs.py again"
    assert {item.tokenizer for item in shipment.proofs} >= {"Qwen/Qwen3-8B", "Xenova/gpt2"}
    for item in shipment.proofs:
        assert item.proof.engine in ADAPTERS
        assert item.proof.swept.code_points == 0x110000 - 0x800  # all but surrogates
        assert not item.proof.failed
    assert FILE.stat().st_size < 100_000
