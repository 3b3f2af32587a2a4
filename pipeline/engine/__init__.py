"""Tokenizer engines behind one call: texts -> (flat ids, offsets).

    files     = resolve_tokenizer("path/or/name")
    selection = select_engine("auto", files, cache_dir=...)     proves engines, once
    engine    = load_engine(selection, files)                   in every worker
    ids, offsets = engine.encode(["some text", "another"])

`tokenizers` (or `sentencepiece`, for a .model) is the truth. A faster engine is used where a sweep
over all of Unicode, the vocabulary and hostile texts found it equal; the code points on which it
is not are sent to the truth. No engine is imported before it is loaded.
"""

from dataprep.pipeline.engine.decode import load_decoder, template_ids
from dataprep.pipeline.engine.exact import ExactEngine, find_unencodable
from dataprep.pipeline.engine.fast import load_fast
from dataprep.pipeline.engine.files import TokenizerFiles, resolve_tokenizer
from dataprep.pipeline.engine.interface import Engine, EngineUnavailableError
from dataprep.pipeline.engine.proof.compare import check_sample
from dataprep.pipeline.engine.proof.prove import prove
from dataprep.pipeline.engine.proof.record import Proof
from dataprep.pipeline.engine.proof.speed import single_threaded_environment
from dataprep.pipeline.engine.proof.sweep import Sweep
from dataprep.pipeline.engine.reference import load_reference
from dataprep.pipeline.engine.select import (
    Rejection,
    Selection,
    load_engine,
    rule_out,
    select_engine,
)
from dataprep.pipeline.engine.vocabulary import with_special

__all__ = [
    "Engine",
    "EngineUnavailableError",
    "ExactEngine",
    "Proof",
    "Rejection",
    "Selection",
    "Sweep",
    "TokenizerFiles",
    "check_sample",
    "find_unencodable",
    "load_decoder",
    "load_engine",
    "load_fast",
    "load_reference",
    "prove",
    "resolve_tokenizer",
    "rule_out",
    "select_engine",
    "single_threaded_environment",
    "template_ids",
    "with_special",
]
