"""Choose an engine for a run, and load it in every worker.

"auto"  ->  Selection(name="fastokens", version="0.3.5", proof=…)
            rejected: those before it, with the reason

The order is fixed, and no engine is timed: with the same proofs at hand it is always the same
engine. The output does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from dataprep.pipeline.engine.exact import ExactEngine
from dataprep.pipeline.engine.fast import ADAPTERS, Adapter, load_fast
from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.interface import Engine, EngineUnavailableError
from dataprep.pipeline.engine.models import load_reference, reference_name, reference_version
from dataprep.pipeline.engine.proof.prove import Tell, known_proof, proof_key, prove, untold
from dataprep.pipeline.engine.proof.record import Proof, read_proof, write_proof
from dataprep.pipeline.engine.proof.sweep import Sweep
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.typed import convert_as, decode_as

REFERENCE = "tokenizers"  # as a choice it stands for the reference of every kind of tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    engine: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    name: str
    version: str
    proof: Proof | None = None  # None: the reference itself
    rejected: tuple[Rejection, ...] = ()


def select_engine(
    requested: str,
    files: TokenizerFiles,
    *,
    cache_dir: Path,
    proves: bool = True,
    sweep: Sweep | None = None,
    adapters: Mapping[str, Adapter] | None = None,
    tell: Tell = untold,
) -> Selection:
    """Choose the engine; `requested` is auto, or the name of the reference or of a fast engine.

    Without `proves`, auto takes only an engine whose proof is there, and else the reference.
    `tell` is told how far a proof is.
    """
    adapters = ADAPTERS if adapters is None else adapters
    known = partial(known_proof, cache_dir=cache_dir, sweep=sweep, adapters=adapters)
    proven = partial(prove, cache_dir=cache_dir, sweep=sweep, adapters=adapters, tell=tell)
    if requested in (reference_name(files), REFERENCE):
        return reference_selection(files)
    if requested == "auto":
        return _automatic(files, adapters, proven if proves else known)
    if requested not in adapters:
        raise ConfigError(
            f"engine {requested!r} cannot read this tokenizer, which is of kind {files.kind}; "
            f"use auto, {REFERENCE} or one of {', '.join(adapters)}"
        )
    proof = proven(requested, files)
    if not proof.equal:
        raise ConfigError(
            f"engine {requested} cannot be used for {files.path or files.kind}: {proof.why_not}; "
            f"use --engine auto or --engine {REFERENCE}"
        )
    return Selection(name=requested, version=proof.version, proof=proof)


def load_engine(
    selection: Selection | Mapping[str, Any] | str | bytes,
    files: TokenizerFiles,
    *,
    adapters: Mapping[str, Adapter] | None = None,
) -> Engine:
    """Load the engine of a selection, which may be JSON."""
    if isinstance(selection, str | bytes):
        selection = decode_as(selection, Selection)
    elif not isinstance(selection, Selection):
        selection = convert_as(selection, Selection)
    proof = selection.proof
    if proof is None:
        return load_reference(files)
    try:
        fast = load_fast(selection.name, files, adapters=adapters)
    except EngineUnavailableError as error:
        raise ConfigError(
            f"engine {selection.name}, chosen for this run, cannot be loaded here: {error}; "
            "install the same packages on every machine"
        ) from error
    if fast.version != selection.version:
        raise ConfigError(
            f"engine {selection.name} is version {fast.version} here, but version "
            f"{selection.version} was proven exact; install the same version on every machine"
        )
    return ExactEngine(fast, lambda: load_reference(files), proof.bad_code_points)


def rule_out(
    selection: Selection,
    files: TokenizerFiles,
    why: str,
    *,
    cache_dir: Path,
    sweep: Sweep | None = None,
    adapters: Mapping[str, Adapter] | None = None,
) -> None:
    """Record in the cache that a proven engine was wrong after all; it is not selected again."""
    assert selection.proof is not None, "the reference cannot be ruled out"
    adapters = ADAPTERS if adapters is None else adapters
    key = proof_key(selection.name, files, sweep or Sweep(), adapters)
    write_proof(cache_dir, key, replace(selection.proof, equal=False, why_not=why))


def why_ruled_out(
    selection: Selection,
    files: TokenizerFiles,
    *,
    cache_dir: Path,
    sweep: Sweep | None = None,
    adapters: Mapping[str, Adapter] | None = None,
) -> str:
    """Return why an engine that was selected earlier must not be used any more, or ""."""
    if selection.proof is None:
        return ""
    adapters = ADAPTERS if adapters is None else adapters
    cached = read_proof(cache_dir, proof_key(selection.name, files, sweep or Sweep(), adapters))
    return "" if cached is None or cached.equal else cached.why_not


def reference_selection(files: TokenizerFiles) -> Selection:
    return Selection(name=reference_name(files), version=reference_version(files))


def _automatic(
    files: TokenizerFiles,
    adapters: Mapping[str, Adapter],
    proof_of: Callable[[str, TokenizerFiles], Proof | None],
) -> Selection:
    rejected: list[Rejection] = []
    is_known = True
    for name, adapter in adapters.items():
        if files.kind not in adapter.loads:
            continue
        if adapter.version() is None:
            rejected.append(Rejection(engine=name, why="not installed"))
            continue
        proof = proof_of(name, files)
        if proof is None:
            is_known = False
        elif proof.equal:
            why_not = tuple(rejected)
            return Selection(name=name, version=proof.version, proof=proof, rejected=why_not)
        else:
            rejected.append(Rejection(engine=name, why=proof.why_not))
    # Where an engine was not tried, nobody can say that none would do.
    return replace(reference_selection(files), rejected=tuple(rejected) if is_known else ())
