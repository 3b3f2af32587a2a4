"""`--task`: one element of a task array, and what it says when its jobs are done."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from dataprep.cli.show import Progress, echo, print_json, show_next
from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.jobs.elements import ShareDone
from dataprep.pipeline.jobs.shares import JobShare, parse_share


def share_of(text: str, *, overwrite: bool, dry_run: bool) -> JobShare:
    """Return the share of an element; refuse flags that concern a whole run."""
    for flag, is_given in (("--overwrite", overwrite), ("--dry-run", dry_run)):
        if is_given:
            raise ConfigError(
                f"--task {text} does a part of a run, {flag} is for all of it; give one of them"
            )
    return parse_share(text, os.environ)


def share_and_show(
    do: Callable[[Progress], ShareDone],
    *,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    log_format: str,
) -> None:
    """Do the jobs of an element and say so."""
    began = time.monotonic()
    with Progress(quiet=quiet, log_format=log_format, verbose=verbose) as progress:
        done = do(progress)
    if as_json:
        print_json(
            {
                "out": str(done.out),
                "task": str(done.share),
                "jobs": done.num_jobs,
                "jobs_before": done.num_before,
                "was_complete": done.was_complete,
                "seconds": round(time.monotonic() - began, 3),
            }
        )
    elif not quiet and done.was_complete:
        echo(f"task {done.share}: nothing to do, all jobs of {done.out} are done")
    elif not quiet:
        jobs, before = counted(done.num_jobs, "job"), f"{done.num_before:,} of them before"
        echo(f"{done.out}: task {done.share} is done, {jobs} ({before})")
        show_next("dataprep", "finalize", done.out)
