"""Find the special ids and tags, by the tokenizer's files and the config.

"<vision>"  ─►  (15, 22, 63)      a tag that is text, encoded by the tokenizer
[32000]     ─►  (32000,)          a tag that is ids
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.documents.rules import (
    Tags,
    Vocabulary,
    adds_special_tokens,
    literals_of,
    modalities_of,
    named_modalities,
)
from dataprep.pipeline.engine import (
    BadTextsError,
    Marked,
    TokenizerFiles,
    encode_texts,
    load_reference,
    mark_literals,
    resolve_tokenizer,
    special_in_literals,
    template_ids,
    with_special,
)
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.tokenize.objectives import named_by_objectives


def vocabulary_of(config: TokenizeConfig, cache_dir: Path) -> Vocabulary:
    files = with_special(
        resolve_tokenizer(config.tokenizer, cache_dir),
        bos=config.bos_token,
        eos=config.eos_token,
        pad=config.pad_token,
        cache_dir=cache_dir,
    )
    # Both load the tokenizer, which takes a second and half a gigabyte, so only if needed.
    wraps = any(adds_special_tokens(config, i) for i in range(len(config.inputs)))
    prefix, suffix = template_ids(files) if wraps else ((), ())
    texts = literals_of(config)
    literals, marks = [config.prepend_text, config.subfield_separator, *texts], dict[str, Marked]()
    special = [0] * len(literals)
    if config.special_in_text == "parse":
        special = [len(found) for found in special_in_literals(files, literals)]
    else:
        literals, marks = mark_literals(files, literals)
    return Vocabulary(
        files=files,
        tags=_tags(config, files),
        text_prefix=tuple(prefix),
        text_suffix=tuple(suffix),
        prepend_text=literals[0],
        subfield_separator=literals[1],
        prepend_special=special[0],
        separator_special=special[1],
        marks=marks,
        literals=dict(zip(texts, zip(literals[2:], special[2:], strict=True), strict=True)),
        objectives=named_by_objectives(config, files),
    )


def _tags(config: TokenizeConfig, files: TokenizerFiles) -> dict[str, Tags]:
    """Return the tags of each modality that may occur; an empty text or list is no tag."""
    modalities = modalities_of(config)
    sections = {modality: config.modalities.section(modality) for modality in modalities}
    tags = {
        (modality, name): tag
        for modality, section in sections.items()
        for name, tag in (("start", section.start), ("end", section.end))
    }
    spelled = _spelled([tag for tag in tags.values() if isinstance(tag, str)], files)
    ids = {place: spelled[tag] if isinstance(tag, str) else tag for place, tag in tags.items()}
    lost = {m: name for (m, name), tag in tags.items() if tag and not ids[m, name]}
    for modality in named_modalities(config) & lost.keys():
        name = lost[modality]
        raise ConfigError(
            f"modalities.{modality}.{name}: the tokenizer gives no id for "
            f"{tags[modality, name]!r}; set another text, a list of ids, or [] for no tag"
        )
    # A modality that nobody named may never occur; if it does, its records are errors.
    return {m: Tags(start=ids[m, "start"], end=ids[m, "end"]) for m in modalities if m not in lost}


def _spelled(texts: Sequence[str], files: TokenizerFiles) -> dict[str, tuple[int, ...]]:
    """Return the ids of each text; the tokenizer is loaded once, and only if there is any."""
    wanted = sorted({*texts} - {""})
    if not wanted:
        return {"": ()}
    try:
        ids, offsets = encode_texts(load_reference(files), wanted)
    except BadTextsError as bad:
        (place, reason), *_ = bad.reasons.items()
        raise ConfigError(f"the tag {wanted[place]!r} {reason}; set it to a list of ids") from None
    parts = np.split(ids, offsets[1:-1])
    return {"": (), **{t: tuple(part.tolist()) for t, part in zip(wanted, parts, strict=True)}}
