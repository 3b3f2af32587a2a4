"""How results and progress look: results on stdout, the rest on stderr."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

from dataprep.pipeline.errors import counted
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.types import Source

SECONDS_BETWEEN_LINES = 30  # where there is no terminal for a bar
SUMMED = ("documents", "tokens", "rows", "num_bytes", "errors")


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))


def use_colour(stream: Any) -> bool:
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR")


def megabytes(num_bytes: float) -> str:
    return f"{num_bytes / 1e6:,.1f} MB"


def show_sources(sources: Sequence[Source], left_out: str) -> None:
    for source in sources:
        size = megabytes(source.num_bytes) if source.num_bytes >= 0 else "size unknown"
        print(f"{source.path}  {source.kind}  {size}")
    if left_out:
        print(left_out, file=sys.stderr)


def summary_of(outcome: Outcome) -> dict[str, Any]:
    """Return what --json prints about a dataset that was made."""
    return {
        "out": str(outcome.out),
        "was_complete": outcome.was_complete,
        "fingerprint": outcome.manifest.fingerprint,
        "shards": len(outcome.manifest.shards),
        "counts": outcome.manifest.counts,
    }


class Progress:
    """Show what a run does: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, *, quiet: bool, log_format: str) -> None:
        self._quiet = quiet
        self._json = log_format == "json"
        self._bar: Any = None
        self._sums = Counter[str]()
        self._began = self._said = time.monotonic()
        self._total = 0
        self._later: threading.Timer | None = None
        self.engine = ""  # what encodes texts, with its version
        self.by_reference = 0  # texts that the reference encoded for it

    def __call__(self, kind: str, values: Mapping[str, Any]) -> None:
        self.engine = values.get("engine", self.engine)
        self.by_reference += values.get("by_reference", 0)
        if self._quiet:
            return
        if kind == "engine":
            # Said only if it takes a while: the first time that a tokenizer is used.
            message = "proving tokenizer engines against the reference, once for this tokenizer"
            self._later = threading.Timer(1.0, self._say, [message])
            self._later.daemon = True
            self._later.start()
        elif kind == "plan":
            self._say(f"planning rows of {counted(values['documents'], 'document')}")
        elif kind == "start":
            self._hush()
            self._start(values)
        elif kind == "progress":
            self._sums.update({key: values[key] for key in SUMMED if key in values})
            if self._bar is not None:
                self._bar.set_postfix_str(self._so_far(), refresh=False)
                self._bar.update(values["num_bytes"])
            elif time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
                self._said = time.monotonic()
                speed = self.num_bytes / 1e6 / self.seconds
                left = max(self._total - self.num_bytes, 0) / max(speed * 1e6, 1)
                self._say(f"{self._so_far()}, {speed:,.0f} MB/s, {left:,.0f} s left", **self._sums)

    def _hush(self) -> None:
        if self._later is not None:
            self._later.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._hush()
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
        self._began = self._said = time.monotonic()
        self._total = values["num_bytes"]
        resumed = f", {values['tasks_done']} done before" if values["tasks_done"] else ""
        if "rows" in values:
            what, how = counted(values["rows"], "row"), ""
        else:
            what = (
                f"{counted(values['sources'], 'source')}, {megabytes(values['num_bytes'])} to read"
            )
            how = f", engine {values['engine']}"
        if values.get("left_out"):
            self._say(values["left_out"])
        self._say(
            f"{what} in {counted(values['tasks'], 'task')}{resumed}; "
            f"{counted(values['workers'], 'worker')}{how}",
            **values,
        )
        for note in values.get("notes", ()):
            self._say(f"note: {note}")
        if sys.stderr.isatty() and not self._json:
            from tqdm import tqdm  # 20 ms that runs without a terminal need not wait for

            self._bar = tqdm(
                total=values["num_bytes"], unit="B", unit_scale=True, file=sys.stderr, leave=False
            )

    def _so_far(self) -> str:
        if self._sums["rows"]:
            return counted(self._sums["rows"], "row")
        return f"{counted(self._sums['documents'], 'doc')}, {self._sums['tokens'] / 1e6:,.1f} Mtok"

    def _say(self, message: str, **values: Any) -> None:
        if self._json:
            message = json.dumps({"level": "info", "message": message, **values})
        print(message, file=sys.stderr)
