"""Proofs that come with the package, for well-known tokenizers (made by `scripts/ship_proofs.py`).

    shipped.json    machine "Linux x86_64", the sweep, and the proofs:
                    Qwen/Qwen3-8B   sha256 of its tokenizer.json   Proof(engine="fastokens", …)

One is used where everything that a proof depends on is as it was: the bytes of the tokenizer, the
versions of the engine and of the reference, the sweep. An engine is compiled for each kind of
machine, so that must be the same, too. All others are ignored.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from dataprep.pipeline.engine.proof.record import Proof, ProofKey
from dataprep.pipeline.engine.proof.sweep import SWEEP_VERSION, Sweep
from dataprep.pipeline.guards.opening import read_bounded
from dataprep.pipeline.typed import decode_as

FILE = Path(__file__).with_name("shipped.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedProof:
    tokenizer: str  # its name on the hub, for people
    sha256: str  # of its tokenizer.json
    proof: Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    machine: str
    sweep: Sweep
    sweep_version: int
    proofs: tuple[ShippedProof, ...]


def this_machine() -> str:
    return f"{platform.system()} {platform.machine()}"


def shipped_proof(key: ProofKey, file: Path = FILE) -> Proof | None:
    """Return the proof of exactly this tokenizer, engine and reference, if it is shipped."""
    return _by_key(file).get(key)


@lru_cache(maxsize=4)
def _by_key(file: Path) -> dict[ProofKey, Proof]:
    try:
        shipment = decode_as(read_bounded(file), Shipment)
    except (OSError, msgspec.MsgspecError):
        return {}
    if shipment.machine != this_machine():
        return {}
    return {
        ProofKey(
            tokenizer_sha256=shipped.sha256,
            engine=shipped.proof.engine,
            version=shipped.proof.version,
            reference=shipped.proof.reference,
            reference_version=shipped.proof.reference_version,
            sweep=shipment.sweep,
            sweep_version=shipment.sweep_version,
        ): shipped.proof
        for shipped in shipment.proofs
    }


def write_shipment(proofs: tuple[ShippedProof, ...], file: Path = FILE) -> None:
    """Write the proofs of this machine, one to a line."""
    head = Shipment(machine=this_machine(), sweep=Sweep(), sweep_version=SWEEP_VERSION, proofs=())
    lines = b",\n".join(map(msgspec.json.encode, proofs))
    text = msgspec.json.encode(head).replace(b'"proofs":[]', b'"proofs":[\n%s\n]' % lines)
    file.write_bytes(text + b"\n")
