"""How results and progress look: results on stdout, the rest on stderr."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel

from dataprep.cli.streams import NEWLINES, json_line, visible, wants_json
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.errors import counted
from dataprep.pipeline.jobs.publish import ERRORS
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.storage.kinds import size_of
from dataprep.pipeline.storage.objects import is_remote
from dataprep.pipeline.storage.reasons import Reason
from dataprep.pipeline.types import Source

SECONDS_BETWEEN_LINES = 30  # where there is no terminal for a bar
MOST_REASONS = 5  # why records are left out
NARROW = 80  # columns, below which a bar leaves out itself
NARROW_BAR = "{percentage:3.0f}%, {remaining} left{postfix}"
SUMMED = ("documents", "tokens", "rows", "num_bytes")  # of each progress message


def echo(line: str, *, err: bool = False) -> None:
    """Print one line, whatever the names and values in it hold."""
    is_json = err and wants_json()
    shown = json_line("info", line) if is_json else visible(line)
    print(shown, file=sys.stderr if err else sys.stdout)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))


def columns() -> int:
    """Return the width of the terminal; 80 where there is none."""
    return shutil.get_terminal_size().columns


def use_colour(stream: Any) -> bool:
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return bool(stream.isatty()) and not is_plain


def megabytes(num_bytes: float) -> str:
    return scaled(num_bytes, "B")


def scaled(value: float, unit: str) -> str:
    """Return a number of at least three digits with its unit.

    >>> scaled(12_345_678, "B"), scaled(950, "tok/s"), scaled(0, "B"), scaled(2.5e12, "B")
    ('12.3 MB', '950 tok/s', '0 B', '2.50 TB')
    """
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            shown = value / size
            return f"{shown:.{2 if shown < 10 else 1 if shown < 100 else 0}f} {prefix}{unit}"
    return f"{value:.0f} {unit}".rstrip()


def show_sources(sources: Sequence[Source], left_out: str) -> None:
    for source in sources:
        size = megabytes(source.num_bytes) if source.num_bytes >= 0 else "size unknown"
        echo(f"{source.path}  {source.kind}  {size}")
    if left_out:
        echo(left_out, err=True)


def show_findings(outcome: Outcome) -> None:
    """Print why records were left out, where they are listed, and what may be a mistake."""
    reasons = _reasons(outcome)
    for found in reasons[:MOST_REASONS]:
        echo(f"  {found.count:,} × {found.reason}; the first: {found.place}")
    more = len(reasons) - MOST_REASONS
    rest = f" and {counted(more, 'more reason')}" if more > 0 else ""
    if outcome.manifest.counts["documents_quarantined"]:
        print(f"  quarantined records{rest}: {outcome.out}/{ERRORS}")
    elif reasons:
        print(f"  dropped records{rest} are listed by --on-error quarantine alone")
    for note in outcome.found.notes:
        echo(f"note: {note}")


def _reasons(outcome: Outcome) -> list[Reason]:
    """Return why records were quarantined, by the dataset, or dropped, by the run."""
    if not outcome.manifest.counts["documents_quarantined"]:
        return [*outcome.found.reasons]
    from dataprep.pipeline.look.reasons import reasons_of

    return reasons_of(outcome.out, outcome.manifest)


def _found(outcome: Outcome) -> dict[str, Any]:
    reasons = [asdict(reason) for reason in _reasons(outcome)[:MOST_REASONS]]
    is_listed = outcome.manifest.counts["documents_quarantined"] > 0
    return {
        **({"errors": f"{outcome.out}/{ERRORS}"} if is_listed else {}),
        **({"reasons": reasons} if reasons else {}),
        "notes": list(outcome.found.notes),
    }


def free_bytes(out: str) -> int:
    """Return what is free where `out` is, or will be; for a bucket, where its shards are written
    before they go there."""
    place = os.path.abspath(os.path.expanduser(default_cache() if is_remote(out) else out))
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    return shutil.disk_usage(place).free


def show_next(*words: str | Path) -> None:
    """Print the command that most people type next."""
    print(f"next: {shlex.join(map(str, words))}")


def say_settings(settings: BaseModel) -> None:
    """Print the settings of a run in full, as a config file would have them."""
    values = settings.model_dump(mode="json", exclude={"encode", "pack"})
    if wants_json():
        print(json_line("info", "settings", settings=values), file=sys.stderr)
    else:
        print(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), end="", file=sys.stderr)


def summary_of(outcome: Outcome, progress: Progress) -> dict[str, Any]:
    """Return what --json prints about a dataset that was made."""
    return {
        "out": str(outcome.out),
        "was_complete": outcome.was_complete,
        **({"moved": dict(outcome.moved)} if outcome.moved else {}),
        "fingerprint": outcome.manifest.fingerprint,
        "shards": len(outcome.manifest.shards),
        "counts": outcome.manifest.counts,
        "bytes": size_of(outcome.manifest),
        "seconds": round(progress.seconds, 3),
        **_found(outcome),
    }


def show_complete(outcome: Outcome, what: str) -> None:
    """Say that there was nothing to do, and whether the dataset names its inputs otherwise."""
    echo(f"nothing to do: {outcome.out} is complete ({what})")
    if outcome.moved:
        (then, now), *others = outcome.moved
        rest = f" (and {counted(len(others), 'other input')})" if others else ""
        echo(
            f"inputs had other names when it was made, which it keeps: {then} is now {now}{rest}; "
            "--overwrite makes it again with the new names"
        )


def speed_of(outcome: Outcome, progress: Progress) -> str:
    """Return how large, how long and how fast: 12.3 MB on disk; 1.2 s, 3.4 MB/s, 0.8 Mtok/s"""
    proof = progress.proof_seconds
    of_it = f" ({proof:.1f} s of it to prove an engine)" if proof else ""
    speeds = ((progress.num_bytes, "B/s"), (progress.num_tokens, "tok/s"))
    told = [scaled(done / progress.work_seconds, unit) for done, unit in speeds if done]
    size = megabytes(size_of(outcome.manifest))
    return ", ".join([f"{size} on disk; {progress.seconds:.1f} s{of_it}", *told])


class Reading:
    """Show how much of some files has been read: a bar on a terminal, else a line now and then."""

    def __init__(self, what: str, num_bytes: int, *, quiet: bool) -> None:
        self._what, self._total, self._quiet = what, max(num_bytes, 1), quiet
        self._read = 0
        self._said = time.monotonic()
        self._bar: Any = None
        if not quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                desc=what, total=num_bytes, unit="B", unit_scale=True, file=sys.stderr, leave=False
            )

    def __call__(self, num_bytes: int) -> None:
        self._read += num_bytes
        if self._bar is not None:
            self._bar.update(num_bytes)
        elif not self._quiet and time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            share = min(1.0, self._read / self._total)
            print(f"{self._what}: {megabytes(self._read)}, {share:.0%}", file=sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()


class Progress:
    """Show what a run does: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, *, quiet: bool, log_format: str, verbose: bool = False) -> None:
        self._quiet = quiet
        self._verbose = verbose
        self._json = log_format == "json"
        self._bar: Any = None
        self._sums = Counter[str]()
        self._began = self._said = self._started = time.monotonic()
        self._total = 0
        self._proving = ""  # the engine that is proven
        self.proof_seconds = 0.0
        self.engine = ""  # what encodes texts, with its version
        self.by_reference = 0  # texts that the reference encoded for it

    def __call__(self, kind: str, values: Mapping[str, Any]) -> None:
        self.engine = values.get("engine", self.engine)
        self.by_reference += values.get("by_reference", 0)
        if self._quiet:
            return
        if kind == "proof":
            self._show_proof(values["proving"], values["done"], values["total"])
        elif kind == "plan":
            self.say(f"planning rows of {counted(values['documents'], 'document')}")
        elif kind == "start":
            self._end_proof()
            self._start(values)
        elif kind == "progress":
            self._sums.update({key: values[key] for key in SUMMED})
            if self._bar is not None:
                self._bar.set_postfix_str(self._so_far(), refresh=False)
                self._bar.update(values["num_bytes"])
            elif time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
                self._said = time.monotonic()
                speed = self.num_bytes / 1e6 / self.work_seconds
                left = max(self._total - self.num_bytes, 0) / max(speed * 1e6, 1)
                self.say(f"{self._so_far()}, {speed:,.0f} MB/s, {left:,.0f} s left", **self._sums)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def work_seconds(self) -> float:
        """Return the seconds since the first task was handed out: what a speed is measured by."""
        return max(time.monotonic() - self._started, 1e-9)

    @property
    def num_bytes(self) -> int:
        return self._sums["num_bytes"]

    @property
    def num_tokens(self) -> int:
        return self._sums["tokens"]

    def _show_proof(self, engine: str, done: int, total: int) -> None:
        """Show how many characters of the proof of an engine are compared."""
        if engine != self._proving:
            self._end_proof()
            self._proving = engine
            self._started = self._said = time.monotonic()
            self.say(
                f"proving that {engine} gives the ids of the reference, "
                "once for this tokenizer; this takes about half a minute"
            )
        if not total:  # the texts are being made
            return
        if self._bar is None and self._has_bars():
            self._bar = self._new_bar(total, unit="char", desc=f"proving {engine}")
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        elif time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            left = self.work_seconds * (total - done) / done
            self.say(f"proving {engine}: {100 * done // total} %, {left:,.0f} s left")

    def _end_proof(self) -> None:
        self.close()
        if self._proving:
            self.proof_seconds += self.work_seconds
            self.say(f"the proof of {self._proving} took {self.work_seconds:.1f} s")
            self._proving = ""

    def _start(self, values: Mapping[str, Any]) -> None:
        self._started = self._said = time.monotonic()
        self._total = values["num_bytes"]
        resumed = f", {values['tasks_done']} done before" if values["tasks_done"] else ""
        if "rows" in values:
            what, how = counted(values["rows"], "row"), ""
        elif "engine" not in values:
            what, how = f"{megabytes(values['num_bytes'])} to read", ""
        else:
            what = (
                f"{counted(values['sources'], 'source')}, {megabytes(values['num_bytes'])} to read"
            )
            how = f", engine {values['engine']}"
        if values.get("left_out"):
            self.say(values["left_out"])
        self.say(
            f"{what} in {counted(values['tasks'], 'task')}{resumed}; "
            f"{counted(values['workers'], 'worker') if values['workers'] else 'on Ray'}{how}",
            **values,
        )
        for note in values.get("notes", ()):
            self.say(f"note: {note}")
        for engine in values.get("rejected", ()) if self._verbose else ():
            self.say(f"engine not chosen: {engine}")
        if self._has_bars():
            self._bar = self._new_bar(values["num_bytes"], unit="B")

    def _has_bars(self) -> bool:
        return sys.stderr.isatty() and not self._json

    def _new_bar(self, total: int, **options: Any) -> Any:
        from tqdm import tqdm  # 20 ms that runs without a terminal need not wait for

        shape = NARROW_BAR if columns() < NARROW else None
        common: dict[str, Any] = {"unit_scale": True, "file": sys.stderr, "leave": False}
        return tqdm(total=total, bar_format=shape, dynamic_ncols=True, **common, **options)

    def _so_far(self) -> str:
        if self._sums["rows"]:
            return counted(self._sums["rows"], "row")
        return f"{counted(self._sums['documents'], 'doc')}, {self._sums['tokens'] / 1e6:,.1f} Mtok"

    def say(self, message: str, **values: Any) -> None:
        if self._json:
            message = json_line("info", message, **values)
        print(visible(message, keep=NEWLINES), file=sys.stderr)
