"""One example -> tokens and masks, as LWM's processors do it, with the trainer's own tokenizer.

    {"q": "a", "a": "b"}, fields "[q],a"     tokens  BOS a b EOS
                                             loss    0   0 1 1

For a look at single examples. Batches never come from here: `dataprep tokenize` with `compat: lwm`
has made them before, by the same rules, proven equal in the tests.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataprep.loaders.compat.lwm.settings import TEXT_PROCESSOR, VISION_PROCESSOR, config_of
from dataprep.pipeline.errors import ConfigError

Example = Mapping[str, Any]


class FieldTokens(NamedTuple):
    """Tokens of a field: their loss, and which are codes of pictures."""

    tokens: list[int]
    loss: float = 0.0
    is_vision: list[bool] | None = None  # None: none of them


class TextProcessor:
    """Texts of an example to (tokens, loss masks, *aux)."""

    @staticmethod
    def get_default_config(updates: Any = None) -> Any:
        return config_of(TEXT_PROCESSOR, updates)

    def __init__(self, config: Any, tokenizer: Any) -> None:
        self.config, self.tokenizer = self.get_default_config(config), tokenizer

    def __call__(
        self,
        example: Any,
        has_aux: bool = False,
        add_bos_token: bool = True,
        add_eos_token: bool = True,
    ) -> tuple[Any, ...]:
        example, *aux = example if has_aux else (example,)
        key = self.config.fields_from_example
        spec = example[key] if key else self.config.fields
        if not spec:
            raise ConfigError("the text processor has no fields: set fields or fields_from_example")
        parts = [
            *_bos(self, add_bos_token),
            *_fields(self, example, spec.split(","), special=False),
            *_eos(self, add_eos_token),
        ]
        return *_joined(parts)[:2], *aux


class VisionTextProcessor:
    """Texts and codes of an example to (tokens, loss masks, vision masks, keep, *aux).

    The last of `aux` is the number of the line, which decides between several lists of fields; LWM
    fails without. `keep` is always True.
    """

    @staticmethod
    def get_default_config(updates: Any = None) -> Any:
        return config_of(VISION_PROCESSOR, updates)

    def __init__(self, config: Any, tokenizer: Any) -> None:
        self.config, self.tokenizer = self.get_default_config(config), tokenizer
        self.vision_start = tokenizer.encode("<vision>")
        self.vision_end = tokenizer.encode("</vision>")

    def __call__(
        self,
        example: Any,
        has_aux: bool = False,
        add_bos_token: bool = True,
        add_eos_token: bool = True,
    ) -> tuple[Any, ...]:
        example, *aux = example if has_aux else (example,)
        if not self.config.fields_from_example:
            raise ConfigError("the vision processor has no fields: set fields_from_example")
        spec = example[self.config.fields_from_example]
        if isinstance(spec, list | tuple):
            index = self.config.fields_index
            line = aux[-1] if aux else 0
            spec = spec[index] if index >= 0 else random.Random(line).choice(spec)
        parts = [
            *_bos(self, add_bos_token),
            *_fields(self, example, spec.split(","), special=True),
            *_eos(self, add_eos_token),
        ]
        return *_joined(parts), True, *aux

    def block(self, codes: Sequence[Any], loss: float) -> FieldTokens:
        """Return the codes of a picture or video as tokens, with tags and an end of each frame."""
        size, most = self.config.n_tokens_per_frame, self.config.max_n_frames
        count = len(codes) // size
        if not count:
            raise ConfigError(f"{len(codes)} codes are less than a frame, which has {size}")
        frames = np.arange(count)
        if 0 < most < count:
            frames = np.linspace(0, count - 1, most).astype(int)
        ends = [self.config.eof_token] * (len(frames) - 1) + [self.config.eov_token]
        tokens = [
            token
            for frame, end in zip(frames.tolist(), ends, strict=True)
            for token in (*map(int, codes[frame * size : (frame + 1) * size]), end)
        ]
        tags = [False] * len(self.vision_start), [False] * len(self.vision_end)
        return FieldTokens(
            [*self.vision_start, *tokens, *self.vision_end],
            loss,
            [*tags[0], *[True] * len(tokens), *tags[1]],
        )


Processor = TextProcessor | VisionTextProcessor


def _fields(
    own: Processor, example: Example, fields: Sequence[str], *, special: bool
) -> Iterator[FieldTokens]:
    """Yield what each field becomes; `special`: whether the tokenizer adds special tokens to texts,
    as LWM's vision processor lets it."""
    for i, field in enumerate(fields):
        is_bare = field.startswith("[") and field.endswith("]")
        name, loss = (field[1:-1], 0.0) if is_bare else (field, 1.0)
        if name in ("<|bos|>", "<|eos|>"):
            yield FieldTokens([getattr(own.tokenizer, f"{name[2:-2]}_token_id")], loss)
        elif "vision" in name and isinstance(own, VisionTextProcessor):
            yield own.block(example[name], loss)
        else:
            text = own.config.subfield_separator.join(example[key] for key in name.split("+"))
            text = own.config.prepend_text + text if i == 0 else text
            # LWM leaves the argument out, where it means the default of the tokenizer.
            more = {} if special else {"add_special_tokens": False}
            yield FieldTokens(own.tokenizer.encode(text, **more), loss)


def _bos(own: Processor, wanted: bool) -> list[FieldTokens]:
    return (
        [FieldTokens([own.tokenizer.bos_token_id])] if wanted and own.config.add_bos_token else []
    )


def _eos(own: Processor, wanted: bool) -> list[FieldTokens]:
    return (
        [FieldTokens([own.tokenizer.eos_token_id], 1.0)]
        if wanted and own.config.add_eos_token
        else []
    )


def _joined(parts: Sequence[FieldTokens]) -> tuple[list[int], list[float], list[bool]]:
    tokens = [token for part in parts for token in part.tokens]
    loss = [part.loss for part in parts for _ in part.tokens]
    vision = [v for part in parts for v in part.is_vision or [False] * len(part.tokens)]
    return tokens, loss, vision
