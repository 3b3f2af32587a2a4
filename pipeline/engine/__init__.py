"""Tokenizer engines behind one call: texts -> (flat ids, offsets).

    hub          "gpt2" -> tokenizer.json in the local cache of the Hugging Face hub
    near         "qwen/qwen3-8" -> Qwen/Qwen3-8B, for the error that a name is not found
    facts        what an earlier run found out about a tokenizer, by its sha256
    special      tokenizer_config.json -> BOS is <s>, id 1; EOS is </s>, id 2; no padding
    files        TokenizerFiles(kind="json", sha256=…, vocab_size=50257, …): all a worker needs
    resolve      a path or a name -> TokenizerFiles
    objects      a tokenizer that a program holds -> a folder of its files
    interface    the contract: ["ab c", ""] -> ids u32 [397, 269], offsets i64 [0, 2, 2]
    models/      kinds of tokenizers (MODELS): vocabulary, decoder, special tokens, and the
                 reference, which is right by definition: tokenizers, sentencepiece, UTF-8 bytes
    vocabulary   the user names "</s>" as EOS -> id 2
    rewrite      a tokenizer.json -> one of the same meaning that a fast engine can load
    fast         fastokens, gigatoken and splintr behind the contract; none is trusted
    proof/       a fast engine -> the code points on which it differs from the reference
    exact        a fast engine, with the reference for texts that hold such a code point
    texts        an engine fails -> which text it is, and why
    plain        texts in which special tokens are text, and where they are spelled
    in_text      text that spells a special token: parse it, keep it as text, or refuse it
    places       ids ─► which bytes of the text each stands for
    content      texts of which parts are content, in which special tokens are text
    select       "auto" -> the first engine that is proven equal; loaded in every worker

    files     = resolve_tokenizer("path/or/name", cache_dir)
    selection = select_engine("auto", files, cache_dir=...)     proves an engine, once
    engine    = load_engine(selection, files)                   in every worker
    ids, offsets = engine.encode(["some text", "another"])

No engine is imported before it is loaded.
"""

from dataprep.pipeline.engine.exact import ExactEngine
from dataprep.pipeline.engine.fast import load_fast, single_threaded_environment
from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.hub import looks_like_hub_name
from dataprep.pipeline.engine.in_text import (
    SpecialInText,
    mark_literals,
    special_in_literals,
)
from dataprep.pipeline.engine.interface import Engine, EngineFailedError, EngineUnavailableError
from dataprep.pipeline.engine.models import (
    load_decoder,
    load_reference,
    read_vocabulary,
    reference_name,
    template_ids,
)
from dataprep.pipeline.engine.plain import Marked
from dataprep.pipeline.engine.proof.compare import check_sample
from dataprep.pipeline.engine.proof.prove import prove
from dataprep.pipeline.engine.proof.record import Proof
from dataprep.pipeline.engine.proof.sweep import Sweep
from dataprep.pipeline.engine.resolve import resolve_tokenizer
from dataprep.pipeline.engine.select import (
    Rejection,
    Selection,
    load_engine,
    reference_selection,
    rule_out,
    select_engine,
    why_ruled_out,
)
from dataprep.pipeline.engine.texts import BadTextsError, EncodedTexts, encode_texts
from dataprep.pipeline.engine.vocabulary import with_special

__all__ = [
    "BadTextsError",
    "EncodedTexts",
    "Engine",
    "EngineFailedError",
    "EngineUnavailableError",
    "ExactEngine",
    "Marked",
    "Proof",
    "Rejection",
    "Selection",
    "SpecialInText",
    "Sweep",
    "TokenizerFiles",
    "check_sample",
    "encode_texts",
    "load_decoder",
    "load_engine",
    "load_fast",
    "load_reference",
    "looks_like_hub_name",
    "mark_literals",
    "prove",
    "read_vocabulary",
    "reference_name",
    "reference_selection",
    "resolve_tokenizer",
    "rule_out",
    "select_engine",
    "single_threaded_environment",
    "special_in_literals",
    "template_ids",
    "why_ruled_out",
    "with_special",
]
