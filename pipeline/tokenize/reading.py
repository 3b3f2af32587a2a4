"""How files without a schema are read, by the config and the tokenizer.

document_end: eos   ─►   {"document_end": "50256"}     as the options of a source
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dataprep.configs.tokenize import HOW_READ, InputConfig, TokenizeConfig
from dataprep.pipeline.engine import TokenizerFiles
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.types import Source


def refuse_unused(config: TokenizeConfig, sources: Sequence[Source], inputs: Sequence[int]) -> None:
    """Raise a ConfigError for a setting of how files are read that none of them looks at."""
    every = list(zip(sources, inputs, strict=True))
    _refuse(config, sources, "the inputs")
    for i, item in enumerate(config.inputs):
        _refuse(item, [source for source, j in every if i == j], item.path)


def _refuse(settings: TokenizeConfig | InputConfig, sources: Iterable[Source], where: str) -> None:
    used = {name for source in sources for name in source.options}
    for name in HOW_READ:
        value = getattr(settings, name)
        if value is not None and name not in used:
            raise ConfigError(
                f"{name} {value} has no effect on {where}, whose files need not be told that; "
                "leave it out"
            )


def with_ends(sources: Iterable[Source], files: TokenizerFiles) -> tuple[Source, ...]:
    """Return the sources with the ids of the tokens at which documents of flat files end."""
    return tuple(_settled(source, files) if source.options else source for source in sources)


def _settled(source: Source, files: TokenizerFiles) -> Source:
    ids = {"bos": files.bos_id, "eos": files.eos_id}
    options = dict(source.options)
    for name in ("document_end", "document_start"):
        said = options.get(name, "none")
        if said == "none":
            continue
        if said not in ids:
            if int(said) >= files.vocab_size:
                raise ConfigError(
                    f"{name} is {said}, outside the vocabulary of {files.vocab_size}; name the id "
                    "of a token, or bos or eos"
                )
            continue
        token = ids[options[name]]
        if token is None:
            raise ConfigError(
                f"{name} is {options[name]}, but the tokenizer names none; set "
                f"--{options[name]}-token, or {name} to an id"
            )
        options[name] = str(token)
    return replace(source, options=options)
