"""A tokenizer small enough to check by hand: BOS 1, EOS 2, space 99, a..z 100.., tags 90 and 91."""

from __future__ import annotations

import json
from pathlib import Path


def write_toy_tokenizer(folder: Path, *, adds_bos: bool = False) -> Path:
    """A tokenizer.json with its tokenizer_config.json; gives the folder."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, processors

    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, "<vision>": 90, "</vision>": 91, " ": 99}
    vocab |= {chr(ord("a") + i): 100 + i for i in range(26)}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    names = ("<s>", "</s>", "<vision>", "</vision>")
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in names])
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)]
        )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": None}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
