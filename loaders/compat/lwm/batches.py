"""LWM's datasets over a packed dataset: (batch, metrics) for ever, with a state dict.

    dataset = DatasetFactory.load_dataset(config, tokenizer, node_info=node_info)
    for batch, metrics in dataset: ...        # {"input_tokens": …}, {"dataset_total_tokens": …}
    dataset.load_state_dict(state)            # goes on with the next token

A place is a token of the stream, or a row: the state is the place, so that it does not depend on
batch sizes or hosts. A state dict that LWM saved itself is taken, too: it begins with the example
after the last that LWM had read, as LWM does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from dataprep.loaders.compat.lwm import settings
from dataprep.loaders.compat.lwm.examples import Examples
from dataprep.loaders.compat.lwm.stream import RowsFrom, TokensFrom, tokens_of
from dataprep.loaders.compat.lwm.throughput import Throughput
from dataprep.loaders.loader import DataLoader
from dataprep.loaders.open import open_packed
from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.schedule import shown
from dataprep.pipeline.errors import ConfigError, ConflictError
from dataprep.pipeline.storage.manifest import kind_of

Metrics = dict[str, int | float]
TEXT_ARRAYS: tuple[str, ...] = ("input_tokens", "target_tokens", "loss_masks")


class LwmDataset:
    """What all three datasets do; they differ in their settings and in where they begin anew."""

    _DEFAULTS: Mapping[str, Any] = settings.JSON
    _BY_LINE = True  # whether blank lines count as examples
    _ARRAYS = (*TEXT_ARRAYS, "input_vision_masks", "target_vision_masks")

    @classmethod
    def get_default_config(cls, updates: Any = None) -> Any:
        return settings.config_of(cls._DEFAULTS, updates)

    def __init__(
        self, config: Any, tokenizer: Any, text_processor: Any, node_info: Any = None
    ) -> None:
        self.config = self.get_default_config(config)
        self._tokenizer, self._text_processor, self._node_info = (
            tokenizer,
            text_processor,
            node_info,
        )
        self._dataset = open_packed(self._folder())
        settings.check_length(self._dataset, self.config.seq_length)
        settings.check_tokenizer(self._dataset, tokenizer)
        settings.check_processor(self._dataset, text_processor)
        settings.check_ends(self._dataset, text_processor)
        settings.check_special_tokens(self._dataset, text_processor)
        self._check_rows()
        self._is_stream = self._dataset.about.strategy == "concat"
        self._examples = Examples(self._dataset, by_line=self._BY_LINE)
        self._loader: DataLoader | None = None
        self._throughput: Throughput | None = None
        self._start = self._first_place()  # of the loader
        self._step = 0  # batches since then
        self._tokens_before = int(self.config.get("tokens_count_at_start", 0))
        get = self.config.get
        self._seen = get("example_index_at_start", 0), get("start_seek_loc", 0)  # example, byte

    # --- batches ---

    def __iter__(self) -> Self:
        """Go on where it is, as LWM does."""
        self._throughput = None
        return self

    def __next__(self) -> tuple[dict[str, Any], Metrics]:
        if self._loader is None:
            self._loader = self._make_loader()
        if self._throughput is None:
            window = self.config.get("throughput_average_window_size", 200)
            self._throughput = Throughput(self._tokens_a_step, window)
        batch = next(self._loader)
        self._step += 1
        accumulated, average = self._throughput.count()
        index, loc = self._seen = self._last_example()
        metrics: Metrics = {
            "dataset_file_loc": loc,
            "dataset_example_index": index,
            "dataset_total_tokens": self._total_tokens,
            "dataset_accumulated_tps": accumulated,
            "dataset_average_tps": average,
        }
        return {name: batch[name] for name in self._ARRAYS}, metrics

    def close(self) -> None:
        """End the thread that makes batches ahead."""
        if self._loader is not None:
            self._loader.close()
            self._loader = None

    # --- state ---

    def get_state_dict(self) -> dict[str, Any]:
        """Return the state after the batches handed out, of plain values."""
        index, loc = self._seen
        return {
            "config": self.config.to_dict(),
            "index": index,
            "file_loc": loc,
            "total_tokens": self._total_tokens,
            "fingerprint": self._dataset.fingerprint,
            "unit": self._unit,
            "place": self._place,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state; the config stays as it is, where LWM would overwrite it."""
        place = self._place_in(state_dict)
        self.close()
        self._start, self._step, self._throughput = place, 0, None
        self._tokens_before = int(state_dict.get("total_tokens", 0))
        self._seen = state_dict.get("index", 0), state_dict.get("file_loc", 0)

    def _place_in(self, state: Mapping[str, Any]) -> int:
        if not isinstance(state, Mapping) or not {"place", "file_loc", "index", "config"} & {
            *state
        }:
            raise ConflictError(f"{shown(state)} is no state of a dataset of LWM; start anew")
        if "place" not in state:  # LWM's own, whose index lags behind when it resumes
            return self._place_at(state.get("file_loc", 0))
        own = {"fingerprint": self._dataset.fingerprint, "unit": self._unit}
        for key, value in own.items():
            if state.get(key) != value:
                raise ConflictError(
                    f"the state was made with {key} {state.get(key)!r}, {self._dataset.folder} has "
                    f"{value!r}; give the dataset that the state is of, or start anew"
                )
        return int(state["place"])

    # --- what trainers ask for ---

    @property
    def seq_length(self) -> int:
        return int(self.config.seq_length)

    @property
    def tokenizer(self) -> Any:
        return self._tokenizer

    @property
    def text_processor(self) -> Any:
        return self._text_processor

    @property
    def dataset(self) -> PackedDataset:
        """The rows, by number."""
        return self._dataset

    @property
    def vocab_size(self) -> int:
        return len(self._tokenizer)

    # --- places ---

    @property
    def _unit(self) -> str:
        return "token" if self._is_stream else "row"

    @property
    def _a_batch(self) -> int:
        """How far a batch goes."""
        size = int(self.config.batch_size)
        return size * self.seq_length if self._is_stream else size

    @property
    def _tokens_a_step(self) -> int:
        return int(self.config.batch_size) * self.seq_length

    @property
    def _total_tokens(self) -> int:
        return self._tokens_before + self._step * self._tokens_a_step

    @property
    def _end(self) -> int:
        """After which place it begins anew."""
        return tokens_of(self._dataset) if self._is_stream else len(self._dataset)

    @property
    def _place(self) -> int:
        return (self._start + self._step * self._a_batch) % self._end

    def _row_and_column(self, place: int) -> tuple[int, int]:
        if not self._is_stream:
            return place % len(self._dataset), 0
        row, column = divmod(place % tokens_of(self._dataset), self.seq_length)
        last = len(self._dataset) - 1
        return min(row, last), column + self.seq_length * (row > last)

    def _last_example(self) -> tuple[int, int]:
        """Return the example that LWM has read when it hands the last batch out: it waits for two
        tokens after the batch."""
        begin = (self._start + (self._step - 1) * self._a_batch) % self._end  # of the last batch
        place = begin + self._a_batch + (1 if self._is_stream else -1)
        return self._examples.at(*self._row_and_column(place))

    def _first_place(self) -> int:
        settings.check_starts(self.config)
        return self._place_at(self.config.get("start_seek_loc", 0))

    def _place_at(self, loc: int) -> int:
        """Return where the example begins that begins at a byte of the file, or the next one."""
        if not loc:
            return 0
        document = self._examples.document_at(loc)
        if self._dataset.about.strategy not in ("concat", "pad"):
            raise ConfigError(
                f"{self._dataset.folder} was packed with --strategy "
                f"{self._dataset.about.strategy}, which has examples in another order; start at 0"
            )
        row, column = self._examples.place_of(document)
        return row * self.seq_length + column if self._is_stream else row

    # --- how they are made ---

    def _folder(self) -> Path:
        path = Path(str(self.config.path))
        if not str(self.config.path) or not path.is_dir():
            raise ConfigError(
                f"path={str(self.config.path)!r} is not the folder of a packed dataset; tokenize "
                "and pack the text first: dataprep tokenize FILE --tokenizer T --fields F --compat "
                f"lwm --out TOKENIZED; dataprep pack TOKENIZED --seq-len "
                f"{self.config.seq_length} --strategy {self._strategy} --compat lwm --out PATH"
            )
        split = path / str(self.config.get("split", "") or ".")
        return split if kind_of(split) == "packed" else path

    @property
    def _strategy(self) -> str:
        return "concat"

    def _check_rows(self) -> None:
        settings.check_strategy(
            self._dataset, padded=self._strategy == "pad", setting=self._padding
        )

    @property
    def _padding(self) -> str:
        return f"type={type(self).__name__}"

    def _rows_from(self, start: int) -> PackedDataset:
        if not self._is_stream:
            return RowsFrom(self._dataset, start)
        return TokensFrom(self._dataset, start)

    def _make_loader(self) -> DataLoader:
        bos = self.config.always_start_with_bos
        return DataLoader(
            self._rows_from(self._start),
            batch_size=int(self.config.batch_size),
            shuffle=False,
            view="lwm_bos" if bos else "lwm",
            **self._placement(),
        )

    def _placement(self) -> dict[str, Any]:
        """Return where batches go: on the mesh, this host's rows, or all rows of every host."""
        is_sharded = self.config.get("use_data_sharded_loader", True)
        if self._node_info is None or not is_sharded:
            return {}
        from jax.sharding import PartitionSpec

        rows, mesh = ("dp", "fsdp"), self._node_info["mesh"]
        if self.config.get("return_local_batch", False):
            if len({device.process_index for device in mesh.devices.flat}) == 1:
                return {}  # one host has all rows, of which no mesh has to have equal parts
            return {"mesh": mesh, "spec": PartitionSpec(rows), "placed": False}
        return {"mesh": mesh, "spec": PartitionSpec(rows, "sp")}
