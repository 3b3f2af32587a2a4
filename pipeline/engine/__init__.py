"""Tokenizer engines behind one call: texts -> (flat ids, offsets).

    hub          "gpt2" -> tokenizer.json in the local cache of the Hugging Face hub
    special      tokenizer_config.json -> BOS is <s>, id 1; EOS is </s>, id 2; no padding
    files        a path or a name -> TokenizerFiles(kind="json", sha256=…, vocab_size=50257, …)
    vocabulary   "</s>" -> 2; and the text of each token: "Ġthe" -> " the"
    interface    the contract: ["ab c", ""] -> ids u32 [397, 269], offsets i64 [0, 2, 2]
    reference    what is right by definition: `tokenizers`, `sentencepiece` or UTF-8 bytes
    rewrite      a tokenizer.json -> one of the same meaning that a fast engine can load
    fast         fastokens, gigatoken and splintr behind the contract; none is trusted
    proof/       a fast engine -> the code points on which it differs from the reference
    exact        a fast engine, with the reference for texts that hold such a code point
    select       "auto" -> the fastest engine that is proven equal; loaded in every worker
    decode       ids -> text for people to read

    files     = resolve_tokenizer("path/or/name")
    selection = select_engine("auto", files, cache_dir=...)     proves engines, once
    engine    = load_engine(selection, files)                   in every worker
    ids, offsets = engine.encode(["some text", "another"])

No engine is imported before it is loaded.
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
