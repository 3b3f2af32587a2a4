"""Find out, once per tokenizer and engine, where the engine equals the reference.

The result is cached. `record` stores it, `sweep` makes the texts, and `trial` judges the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from dataprep.pipeline.engine.fast import ADAPTERS, Adapter, load_fast
from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.interface import Engine, EngineFailedError, EngineUnavailableError
from dataprep.pipeline.engine.proof.record import Proof, ProofKey, read_proof, write_proof
from dataprep.pipeline.engine.proof.sweep import Material, Sweep, make_material
from dataprep.pipeline.engine.proof.trial import Trial
from dataprep.pipeline.engine.reference import load_reference, reference_name, reference_version

T = TypeVar("T")

BATCH_CHARACTERS = 1_000_000
BATCH_DOCUMENTS = 20_000


def prove(
    name: str,
    files: TokenizerFiles,
    *,
    cache_dir: Path,
    sweep: Sweep | None = None,
    adapters: Mapping[str, Adapter] | None = None,
) -> Proof:
    """Return the proof of an engine; one that cannot be loaded is not equal."""
    adapters = ADAPTERS if adapters is None else adapters
    sweep = sweep or Sweep()
    key = proof_key(name, files, sweep, adapters)
    cached = read_proof(cache_dir, key)
    if cached is not None:
        return cached
    try:
        engine = load_fast(name, files, adapters=adapters)
    except EngineUnavailableError as error:
        return _proof_of(key, equal=False, why_not=str(error))
    proof = _try_out(engine, key, files, sweep)
    if not proof.failed:
        with suppress(OSError):  # an unwritable cache only costs time
            write_proof(cache_dir, key, proof)
    return proof


def proof_key(
    name: str, files: TokenizerFiles, sweep: Sweep, adapters: Mapping[str, Adapter]
) -> ProofKey:
    return ProofKey(
        tokenizer_sha256=files.sha256,
        engine=name,
        version=adapters[name].version() or "",
        reference=reference_name(files),
        reference_version=reference_version(files),
        sweep=sweep,
    )


def _try_out(engine: Engine, key: ProofKey, files: TokenizerFiles, sweep: Sweep) -> Proof:
    reference = load_reference(files)
    material = make_material(files, sweep)
    trial = Trial(engine, reference)
    try:
        num_characters = _run_trial(trial, reference, material)
    except EngineFailedError as error:
        why_not = f"{reference.name} itself fails on texts of the trial: {error}"
        return _proof_of(key, equal=False, why_not=why_not)
    return _proof_of(
        key,
        equal=not trial.why_not,
        why_not=trial.why_not,
        failed=trial.failed,
        bad_code_points=trial.bad_ranges(),
        num_bad_code_points=len(trial.bad),
        swept=material.swept(num_characters),
    )


def _run_trial(trial: Trial, reference: Engine, material: Material) -> int:
    """Run the trial until the engine is ruled out; return how many characters were encoded."""
    num_characters = 0
    for phase in (material.code_points(), material.pairs()):
        for chains in _batches(phase, lambda chain: len(chain.elements) * 8):
            texts = [chain.text for chain in chains]
            num_characters += sum(map(len, texts))
            trial.judge_chains(chains, texts, reference.encode(texts))
            if trial.why_not:
                return num_characters
    for texts in _batches(material.strict(), len):
        num_characters += sum(map(len, texts))
        trial.judge_strict(texts, reference.encode(texts))
        if trial.why_not:
            break
    return num_characters


def _batches(items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    batch: list[T] = []
    size = 0
    for item in items:
        batch.append(item)
        size += size_of(item)
        if size >= BATCH_CHARACTERS or len(batch) >= BATCH_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _proof_of(key: ProofKey, **findings: Any) -> Proof:
    return Proof(
        engine=key.engine,
        version=key.version,
        reference=key.reference,
        reference_version=key.reference_version,
        **findings,
    )
