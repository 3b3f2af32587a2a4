"""How results and progress look: results on stdout, the rest on stderr."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from tqdm import tqdm


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))


def use_colour(stream: Any) -> bool:
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR")


def megabytes(num_bytes: float) -> str:
    return f"{num_bytes / 1e6:,.1f} MB"


class Progress:
    """Tells what a run does: a bar on a terminal, one line a stage elsewhere."""

    def __init__(self, *, quiet: bool, log_format: str) -> None:
        self._quiet = quiet
        self._json = log_format == "json"
        self._bar: Any = None
        self._sums = {"documents": 0, "tokens": 0, "num_bytes": 0, "errors": 0}
        self._began = time.monotonic()

    def __call__(self, kind: str, values: Mapping[str, Any]) -> None:
        if self._quiet:
            return
        if kind == "engine":
            self._say(
                "choosing a tokenizer engine (the first time a tokenizer is seen takes longer)"
            )
        elif kind == "start":
            self._start(values)
        elif kind == "progress":
            for key in self._sums:
                self._sums[key] += values[key]
            if self._bar is not None:
                self._bar.set_postfix_str(
                    f"{self._sums['documents']:,} docs, {self._sums['tokens'] / 1e6:,.1f} Mtok",
                    refresh=False,
                )
                self._bar.update(values["num_bytes"])

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def num_bytes(self) -> int:
        return self._sums["num_bytes"]

    def _start(self, values: Mapping[str, Any]) -> None:
        self._began = time.monotonic()
        resumed = f", {values['tasks_done']} done before" if values["tasks_done"] else ""
        self._say(
            f"{values['sources']} sources, {megabytes(values['num_bytes'])} to read in "
            f"{values['tasks']} tasks{resumed}; {values['workers']} workers, "
            f"engine {values['engine']}",
            **values,
        )
        if sys.stderr.isatty() and not self._json:
            self._bar = tqdm(
                total=values["num_bytes"], unit="B", unit_scale=True, file=sys.stderr, leave=False
            )

    def _say(self, message: str, **values: Any) -> None:
        if self._json:
            message = json.dumps({"level": "info", "message": message, **values})
        print(message, file=sys.stderr)
