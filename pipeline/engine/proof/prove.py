"""Find out, once per tokenizer and engine, where the engine equals the reference.

The result is cached. `record` stores it, `sweep` makes the texts, and `trial` judges the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from dataprep.pipeline.engine.fast import ADAPTERS, Adapter, load_fast
from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.interface import Engine, EngineFailedError, EngineUnavailableError
from dataprep.pipeline.engine.models import load_reference, reference_name, reference_version
from dataprep.pipeline.engine.proof.record import Proof, ProofKey, read_proof, write_proof
from dataprep.pipeline.engine.proof.shipped import shipped_proof
from dataprep.pipeline.engine.proof.sweep import Material, Sweep, make_material
from dataprep.pipeline.engine.proof.trial import Trial

T = TypeVar("T")
Tell = Callable[[str, int, int], None]  # the engine, characters compared, of how many

BATCH_CHARACTERS = 1_000_000
BATCH_DOCUMENTS = 20_000


def untold(engine: str, done: int, total: int) -> None:
    """Tell nobody."""


def prove(
    name: str,
    files: TokenizerFiles,
    *,
    cache_dir: Path,
    sweep: Sweep | None = None,
    adapters: Mapping[str, Adapter] | None = None,
    tell: Tell = untold,
) -> Proof:
    """Return the proof of an engine; one that cannot be loaded is not equal."""
    adapters = ADAPTERS if adapters is None else adapters
    sweep = sweep or Sweep()
    known = known_proof(name, files, cache_dir=cache_dir, sweep=sweep, adapters=adapters)
    if known is not None:
        return known
    key = proof_key(name, files, sweep, adapters)
    try:
        engine = load_fast(name, files, adapters=adapters)
    except EngineUnavailableError as error:
        return _proof_of(key, equal=False, why_not=str(error))
    tell(name, 0, 0)  # the texts take a moment to make
    proof = _try_out(engine, key, files, sweep, tell)
    if not proof.failed:
        write_proof(cache_dir, key, proof)
    return proof


def known_proof(
    name: str,
    files: TokenizerFiles,
    *,
    cache_dir: Path,
    sweep: Sweep | None = None,
    adapters: Mapping[str, Adapter] | None = None,
) -> Proof | None:
    """Return the proof if there is one already.

    The cache comes first: there an engine is ruled out whose shipped proof was wrong after all.
    """
    adapters = ADAPTERS if adapters is None else adapters
    key = proof_key(name, files, sweep or Sweep(), adapters)
    return read_proof(cache_dir, key) or shipped_proof(key)


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


def _try_out(
    engine: Engine, key: ProofKey, files: TokenizerFiles, sweep: Sweep, tell: Tell
) -> Proof:
    reference = load_reference(files)
    material = make_material(files, sweep)
    trial = Trial(engine, reference)
    try:
        num_characters = _run_trial(trial, reference, material, tell)
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


def _run_trial(trial: Trial, reference: Engine, material: Material, tell: Tell) -> int:
    """Run the trial until the engine is ruled out; return how many characters were encoded."""
    total = material.num_characters()  # for whoever watches; the texts would take 100 MB
    num_characters = 0
    for phase in (material.code_points(), material.pairs()):
        for chains in _batches(phase, lambda chain: len(chain.elements) * 8):
            texts = [chain.text for chain in chains]
            trial.judge_chains(chains, texts, reference.encode(texts))
            num_characters += sum(map(len, texts))
            tell(trial.engine.name, num_characters, total)
            if trial.why_not:
                return num_characters
    for texts in _batches(material.strict(), len):
        trial.judge_strict(texts, reference.encode(texts))
        num_characters += sum(map(len, texts))
        tell(trial.engine.name, num_characters, total)
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
