"""Find out, once per tokenizer and engine, where the engine equals the reference.

Several engines are tried together, since the reference takes most of the time. The result is
cached. `record` stores it, `sweep` makes the texts, and `trial` judges one engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dataprep.pipeline.engine.fast import ADAPTERS, Adapter, load_fast
from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.interface import Engine, EngineUnavailableError
from dataprep.pipeline.engine.proof.record import Proof, ProofKey, read_proof, write_proof
from dataprep.pipeline.engine.proof.speed import REFERENCE, measure, speeds_on_one_thread
from dataprep.pipeline.engine.proof.sweep import Material, Sweep, make_material
from dataprep.pipeline.engine.proof.trial import Trial
from dataprep.pipeline.engine.reference import load_reference, reference_name, reference_version

T = TypeVar("T")

BATCH_CHARACTERS = 1_000_000
BATCH_DOCUMENTS = 20_000


def prove(
    engine_name: str,
    files: TokenizerFiles,
    *,
    cache_dir: Path,
    sweep: Sweep | None = None,
    adapters: Mapping[str, Adapter] | None = None,
) -> Proof:
    return prove_all([engine_name], files, cache_dir=cache_dir, sweep=sweep, adapters=adapters)[0]


def prove_all(
    names: Sequence[str],
    files: TokenizerFiles,
    *,
    cache_dir: Path,
    sweep: Sweep | None = None,
    adapters: Mapping[str, Adapter] | None = None,
) -> list[Proof]:
    """Return one proof for each name, in order; an engine that cannot be loaded is not equal."""
    adapters = ADAPTERS if adapters is None else adapters
    sweep = sweep or Sweep()
    proofs: dict[str, Proof] = {}
    engines: dict[str, Engine] = {}
    for name in names:
        key = proof_key(name, files, sweep, adapters)
        cached = read_proof(cache_dir, key)
        if cached is not None:
            proofs[name] = cached
            continue
        try:
            engines[name] = load_fast(name, files, adapters=adapters)
        except EngineUnavailableError as error:
            proofs[name] = _proof_of(key, equal=False, why_not=str(error))
    if engines:
        keys = {name: proof_key(name, files, sweep, adapters) for name in engines}
        for name, proof in _try_out(engines, keys, files, sweep).items():
            proofs[name] = proof
            if not proof.failed:
                with suppress(OSError):  # an unwritable cache only costs time
                    write_proof(cache_dir, keys[name], proof)
    return [proofs[name] for name in names]


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
    engines: Mapping[str, Engine],
    keys: Mapping[str, ProofKey],
    files: TokenizerFiles,
    sweep: Sweep,
) -> dict[str, Proof]:
    started = time.perf_counter()
    reference = load_reference(files)
    material = make_material(files, sweep)
    trials = {name: Trial(engine, reference) for name, engine in engines.items()}
    num_characters = _run_trials(list(trials.values()), reference, material)
    swept = material.swept(num_characters)
    seconds = time.perf_counter() - started
    sound = [name for name, trial in trials.items() if not trial.why_not]
    if all(name in ADAPTERS for name in sound):
        speeds = speeds_on_one_thread(sound, files, sweep.speed_characters, sweep.seed)
    else:  # engines that only this process has
        loaded: dict[str, Callable[[], Engine]] = {
            name: partial(engines.__getitem__, name) for name in sound
        }
        loaded[REFERENCE] = lambda: reference
        speeds = measure(loaded, sweep.speed_characters, sweep.seed)
    return {
        name: _proof_of(
            keys[name],
            equal=not trial.why_not,
            why_not=trial.why_not,
            failed=trial.failed,
            bad_code_points=trial.bad_ranges(),
            num_bad_code_points=len(trial.bad),
            swept=swept,
            seconds=round(seconds, 2),
            megabytes_per_second=speeds.get(name, 0.0),
            reference_megabytes_per_second=speeds.get(REFERENCE, 0.0),
        )
        for name, trial in trials.items()
    }


def _run_trials(trials: Sequence[Trial], reference: Engine, material: Material) -> int:
    """Run the trials until every engine is ruled out; return how many characters were encoded."""
    num_characters = 0
    for phase in (material.code_points(), material.pairs()):
        for chains in _batches(phase, lambda chain: len(chain.elements) * 8):
            texts = [chain.text for chain in chains]
            num_characters += sum(map(len, texts))
            truth = reference.encode(texts)
            for trial in trials:
                trial.judge_chains(chains, texts, truth)
            if all(trial.why_not for trial in trials):
                return num_characters
    for texts in _batches(material.strict(), len):
        truth = reference.encode(texts)
        num_characters += sum(map(len, texts))
        for trial in trials:
            trial.judge_strict(texts, truth)
        if all(trial.why_not for trial in trials):
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
