"""LWM's datasets and their factory, by LWM's names."""

from __future__ import annotations

from typing import Any

from dataprep.loaders.compat.lwm import settings
from dataprep.loaders.compat.lwm.batches import TEXT_ARRAYS, LwmDataset
from dataprep.loaders.compat.lwm.processors import TextProcessor, VisionTextProcessor
from dataprep.loaders.compat.lwm.stream import RowsFrom, TokensFrom, tokens_of
from dataprep.loaders.packed import PackedDataset
from dataprep.pipeline.errors import ConfigError


class DatasetFactory:
    """Makes the dataset that a config names."""

    @staticmethod
    def get_default_config(updates: Any = None) -> Any:
        config = settings.config_of({"type": "huggingface"})
        config.text_processor = TextProcessor.get_default_config()
        config.huggingface_dataset = HuggingfaceDataset.get_default_config()
        config.json_dataset = JsonDataset.get_default_config()
        config.vision_text_processor = VisionTextProcessor.get_default_config()
        config.json_vision_dataset = JsonVisionDataset.get_default_config()
        return settings.config_of(config, updates)

    @classmethod
    def load_dataset(cls, config: Any, tokenizer: Any, **kwargs: Any) -> LwmDataset:
        config = cls.get_default_config(config)
        if config.type not in _TYPES:
            raise ConfigError(f"Unknown dataset type: {config.type}; known: {', '.join(_TYPES)}")
        kind, processor, own = _TYPES[config.type]
        made = processor(config[own], tokenizer)
        return kind(config[f"{config.type}_dataset"], tokenizer, made, **kwargs)

    def __init__(self) -> None:
        raise ValueError("DatasetFactory is a static class and should not be instantiated.")


class JsonDataset(LwmDataset):
    """Texts: a stream of `--strategy concat`, or with `pad` one example a row."""

    _DEFAULTS = settings.JSON

    @property
    def _strategy(self) -> str:
        return "pad" if self.config.pad else "concat"

    @property
    def _padding(self) -> str:
        return f"pad={self.config.pad}"

    def _check_rows(self) -> None:
        super()._check_rows()
        rows = self._dataset
        made = rows.about.config.get("pack", {})
        if self.config.pad and "vision" in rows.masks and made.get("compat") == "lwm":
            raise ConfigError(
                f"{rows.folder} was packed as rows that may hold codes, in which compat lwm shifts "
                "the loss, as LWM does; its texts have no such shift: pack them without compat"
            )


class JsonVisionDataset(LwmDataset):
    """Texts and codes: one example a row, or with mode no_pad a stream."""

    _DEFAULTS = settings.JSON_VISION

    @property
    def _strategy(self) -> str:
        if self.config.mode not in ("pad", "no_pad"):
            raise ConfigError(f"Unknown mode: {self.config.mode}; it is pad or no_pad")
        return "pad" if self.config.mode == "pad" else "concat"

    @property
    def _padding(self) -> str:
        return f"mode={self.config.mode}"


class HuggingfaceDataset(LwmDataset):
    """Texts: a stream that begins anew when no whole batch is left, as LWM's does.

    Has the three arrays that LWM's has. `path` is the folder, or the one that has a folder `split`.
    """

    _DEFAULTS = settings.HUGGINGFACE
    _ARRAYS = TEXT_ARRAYS
    _BY_LINE = False

    def _rows_from(self, start: int) -> PackedDataset:
        if not self._is_stream:
            return RowsFrom(self._dataset, start)
        return TokensFrom(self._dataset, start, self._end // self.seq_length)

    @property
    def _end(self) -> int:
        if not self._is_stream:
            return len(self._dataset)
        tokens = tokens_of(self._dataset)
        batches = (tokens - 2) // self._tokens_a_step
        if batches < 1:
            raise ConfigError(
                f"{self._dataset.folder} has {tokens} tokens, which is less than a batch of "
                f"{self._tokens_a_step} and two more; set a smaller batch_size"
            )
        return batches * self._tokens_a_step


_TYPES: dict[str, tuple[type[LwmDataset], Any, str]] = {
    "huggingface": (HuggingfaceDataset, TextProcessor, "text_processor"),
    "json": (JsonDataset, TextProcessor, "text_processor"),
    "json_vision": (JsonVisionDataset, VisionTextProcessor, "vision_text_processor"),
}
