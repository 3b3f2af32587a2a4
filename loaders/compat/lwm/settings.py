"""The configs of LWM's data classes, with its names and defaults, held against a dataset.

A dataset was made with settings of its own: those of LWM that say something else are errors, so
that a flag which is left from before cannot be passed over in silence. Settings of how LWM
tokenizes, such as tokenizer_processes, have no effect: text was tokenized before.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.schedule import whole_number
from dataprep.pipeline.errors import ConfigError

PROCESSOR: dict[str, Any] = {
    "fields_from_example": "",
    "subfield_separator": " ",
    "add_bos_token": True,
    "add_eos_token": True,
    "prepend_text": "",
}
TEXT_PROCESSOR = {**PROCESSOR, "fields": ""}
VISION_PROCESSOR = {
    **PROCESSOR,
    "fields_index": -1,
    "eof_token": 8192,
    "eov_token": 8193,
    "n_tokens_per_frame": 256,
    "max_n_frames": -1,
}
HUGGINGFACE: dict[str, Any] = {
    "path": "c4",
    "name": "en",
    "split": "train",
    "streaming": False,
    "seq_length": 1024,
    "batch_size": 8,
    "always_start_with_bos": False,
}
_FILE: dict[str, Any] = {
    "path": "",
    "seq_length": 1024,
    "batch_size": 8,
    "always_start_with_bos": False,
    "start_seek_loc": 0,
    "example_index_at_start": 0,
    "tokens_count_at_start": 0,
    "tokenizer_processes": 1,
    "tokenizer_parallel_chunk_size": 32,
    "tokenizer_parallel_batch_size": 1024,
    "throughput_average_window_size": 200,
    "use_data_sharded_loader": True,
    "return_local_batch": False,
}
JSON = {**_FILE, "pad": False}
JSON_VISION = {**_FILE, "seq_length": 384, "batch_size": 4, "mode": "pad"}

# What a processor is told, and what the dataset was tokenized with.
_TOLD = {
    "fields_index": "fields_index",
    "fields": "fields",
    "fields_from_example": "fields_from",
    "subfield_separator": "subfield_separator",
    "prepend_text": "prepend_text",
}
# Fields are told once for all records, or by each of them: the other way, and what counts more.
_EITHER = {"fields": ("fields_from", "fields_from_example"), "fields_from_example": ("fields", "")}
_TOLD_OF_VISION = {
    "n_tokens_per_frame": "tokens_per_frame",
    "eof_token": "end_of_frame",
    "eov_token": "end_of_media",
    "max_n_frames": "max_frames",
}


def config_of(defaults: Mapping[str, Any], updates: Any = None) -> Any:
    """Return an ml_collections.ConfigDict, as LWM's flags expect it."""
    try:
        from ml_collections import ConfigDict
    except ImportError:
        raise ConfigError(
            "LWM's configs are those of ml_collections, which is not installed; install it as LWM "
            "does: pip install ml_collections"
        ) from None
    config = ConfigDict(dict(defaults))
    if updates is not None:
        _check_known(config, updates)
        config.update(ConfigDict(updates).copy_and_resolve_references())
    return config


def _check_known(defaults: Mapping[str, Any], updates: Any, section: str = "") -> None:
    """Raise a ConfigError for a setting that LWM does not have: it would take it, unused."""
    for key in updates:
        if key not in defaults:
            near = get_close_matches(key, list(defaults), n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(defaults)}"
            raise ConfigError(f"LWM has no setting {section}{key}; {hint}")
        if hasattr(defaults[key], "keys") and hasattr(updates[key], "keys"):
            _check_known(defaults[key], updates[key], f"{section}{key}.")


def check_length(rows: PackedDataset, seq_length: int) -> None:
    if rows.seq_len != seq_length:
        raise ConfigError(
            f"seq_length={seq_length}, but {rows.folder} has rows of {rows.seq_len} tokens; set "
            f"seq_length={rows.seq_len}, or pack with --seq-len {seq_length}"
        )


def check_strategy(rows: PackedDataset, *, padded: bool, setting: str) -> None:
    """Raise a ConfigError unless rows are one example each just where LWM's setting says so."""
    if padded is not rows.about.one_document_a_row:
        wanted = "pad" if padded else "concat"
        raise ConfigError(
            f"{setting}, but {rows.folder} was packed with --strategy {rows.about.strategy}; pack "
            f"with --strategy {wanted}, or set it as the dataset is"
        )


def check_tokenizer(rows: PackedDataset, tokenizer: Any) -> None:
    for name in ("bos", "eos"):
        own, given = (
            getattr(rows.about.tokenizer, name),
            getattr(tokenizer, f"{name}_token_id", None),
        )
        if own is not None and given != own:
            raise ConfigError(
                f"the tokenizer has {name.upper()} {given}, but {rows.folder} was made with one "
                f"that has {own}; give the tokenizer of the dataset"
            )


def check_processor(rows: PackedDataset, processor: Any) -> None:
    """Raise a ConfigError where a processor was told another thing than `dataprep tokenize`."""
    config, made = getattr(processor, "config", {}), rows.about.config
    vision = dict(made.get("modalities") or {}).get("vision") or {}
    pairs = [(key, own, made) for key, own in _TOLD.items()]
    if "vision" in rows.masks:
        pairs += [(key, own, vision) for key, own in _TOLD_OF_VISION.items()]
    for key, own, settings in pairs:
        if key not in config or own not in settings:
            continue
        given, found = _plain(key, config[key]), _plain(key, settings[own])
        if key in _EITHER:
            # Which fields there are may be left to the dataset; None: each input has its own.
            other, beats = _EITHER[key]
            is_open = given is None or (found is None and made.get(other) is None)
            if is_open or (beats and config.get(beats)):
                continue
        if given != found:
            raise ConfigError(
                f"{key}={config[key]!r}, but {rows.folder} was tokenized with {own}={found!r}; "
                f"tokenize anew, or set {key} as the dataset has it"
            )


def check_special_tokens(rows: PackedDataset, processor: Any) -> None:
    """Raise a ConfigError where texts have special tokens that LWM's text processor does not add:
    its vision processor does, which `compat: lwm` goes by where records name their fields."""
    made: Mapping[str, Any] = rows.about.config
    added = made.get("field_special_tokens", False)
    if added == "auto":
        by_records = (
            item["fields"] is None and (item["fields_from"] or made["fields_from"])
            for item in made["inputs"]
        )
        added = made.get("compat") == "lwm" and any(by_records)
    is_of_texts = "fields" in getattr(processor, "config", {})
    if not added or not is_of_texts:
        return
    encode = processor.tokenizer.encode
    if encode("a") != encode("a", add_special_tokens=False):
        raise ConfigError(
            f"{rows.folder} was tokenized with the tokenizer's special tokens around every field, "
            "as LWM's vision processor adds them; its text processor adds none: tokenize anew with "
            "--no-field-special-tokens, or set type=json_vision"
        )


def check_starts(config: Any) -> None:
    for key in ("start_seek_loc", "example_index_at_start", "tokens_count_at_start"):
        whole_number(key, config.get(key, 0), least=0)


def check_ends(rows: PackedDataset, processor: Any) -> None:
    """Raise a ConfigError where a processor adds BOS or EOS otherwise than `dataprep tokenize`."""
    config, ends = getattr(processor, "config", {}), rows.about.tokenizer
    made: Mapping[str, Any] = rows.about.config
    # Under `compat: lwm`, a BOS is added that is the EOS, too.
    has_bos = ends.bos is not None and (ends.bos != ends.eos or made.get("compat") == "lwm")
    for name, by_default in (("bos", has_bos), ("eos", ends.eos is not None)):
        found, key = made.get(f"add_{name}"), f"add_{name}_token"
        if found == "auto":  # token ids and chat templates have their own
            found = None if made.get("chat") or made.get("pretokenized") else by_default
        if found is not None and key in config and bool(config[key]) != found:
            flag = f"--{'' if config[key] else 'no-'}add-{name}"
            raise ConfigError(
                f"{key}={config[key]}, but the documents of {rows.folder} were tokenized with "
                f"{name.upper()} {'added' if found else 'left out'}; set {key}={found}, or "
                f"tokenize anew with {flag}"
            )


def _plain(key: str, value: Any) -> Any:
    """Return None for what LWM writes as '' or -1, or as 0 where that is no limit."""
    if value == "" or (isinstance(value, int) and value < 0):
        return None
    return None if key == "max_n_frames" and value == 0 else value
