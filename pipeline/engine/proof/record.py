"""The result of a trial, and the folder of the cache where results are kept.

    cache_dir/engines/SHA256.json      named by a hash of everything that the proof depends on

A file that cannot be read counts as missing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from dataprep.pipeline.caches import read_cached, write_cached
from dataprep.pipeline.engine.proof.sweep import SWEEP_VERSION, Sweep, Swept
from dataprep.pipeline.typed import decode_as


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    engine: str
    version: str
    reference: str
    reference_version: str
    equal: bool
    why_not: str = ""  # with an example; "" where equal
    failed: bool = False  # with an exception; such a result is not cached
    bad_code_points: tuple[tuple[int, int], ...] = ()  # inclusive ranges; left to the reference
    num_bad_code_points: int = 0
    swept: Swept = field(default_factory=Swept)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofKey:
    """Everything that a proof depends on."""

    tokenizer_sha256: str
    engine: str
    version: str
    reference: str
    reference_version: str
    sweep: Sweep
    sweep_version: int = SWEEP_VERSION

    @property
    def file_name(self) -> str:
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{hashlib.sha256(text.encode()).hexdigest()}.json"


def read_proof(cache_dir: Path, key: ProofKey) -> Proof | None:
    data = read_cached(cache_dir / "engines" / key.file_name)
    try:
        proof = None if data is None else decode_as(data, Proof)
    except msgspec.MsgspecError:
        return None
    is_its = proof is not None and (proof.engine, proof.version) == (key.engine, key.version)
    return proof if is_its else None


def write_proof(cache_dir: Path, key: ProofKey, proof: Proof) -> None:
    write_cached(cache_dir / "engines" / key.file_name, msgspec.json.encode(proof))
