"""Publish what the elements of a task array have made; what to do stands in the work folder.

out/.work/identity.json   of which command it is
out/.work/array.json      how many elements there are, and in which folder they ran
out/.work/plan.json       as workers read it
out/.work/tasks/*.done    every job must have its markers

In a bucket these stand below s3://…/.work/; the plan is fetched, by whatever machine publishes.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from dataprep.pipeline.errors import (
    ConfigError,
    ConflictError,
    CorruptError,
    DataprepError,
    ResourceError,
    counted,
)
from dataprep.pipeline.files import write_sealed
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.buckets import LOOKS, BucketSite, bucket_site
from dataprep.pipeline.jobs.claims import crowded, damaged, find_claim
from dataprep.pipeline.jobs.make import make_dataset
from dataprep.pipeline.jobs.ownership import IDENTITY, check_work, make_work
from dataprep.pipeline.jobs.placing import is_published
from dataprep.pipeline.jobs.recipes import Outcome, Recipe, Report, Work
from dataprep.pipeline.jobs.shares import array_of, owners_of
from dataprep.pipeline.jobs.sites import LocalSite
from dataprep.pipeline.jobs.stored import StoredWork
from dataprep.pipeline.jobs.stored_plans import fetch_plan, planned_names
from dataprep.pipeline.jobs.workspace import (
    Identity,
    begun_to_continue,
    check_out,
    locked,
    why_distrusted,
)
from dataprep.pipeline.storage.manifest import MANIFEST, WORK, read_manifest
from dataprep.pipeline.storage.objects import NoSuchObjectError, is_remote

MOST_NAMED = 8  # elements in a message

# Given the output and its work folder, return the recipe of the run that was begun there.
FindRecipe = Callable[[Path | str, Path], Recipe[Any, Any]]


def publish_begun(name: str, recipes: Mapping[str, FindRecipe]) -> Outcome:
    """Publish the dataset in this folder, or find it complete; `recipes` are by kind of dataset."""
    if is_remote(name):
        return _publish_in_bucket(name, recipes)
    out = Path(os.path.abspath(check_out(name)))
    if out.is_dir():
        check_work(out)
    if (out / MANIFEST).exists():
        if (out / WORK).exists():  # left by one that was killed at the very end
            with locked(out):
                LocalSite(out).remove_work()
        return Outcome(out=out, manifest=read_manifest(out), was_complete=True)
    return _publish(out, out / WORK, recipes, f"dataprep clean {out} --go")


def _publish_in_bucket(name: str, recipes: Mapping[str, FindRecipe]) -> Outcome:
    """Publish by what elements have put into a bucket; this machine need not be one of theirs."""
    site = bucket_site(name, of="finalize")
    with locked(site.folder, name=site.out):
        try:
            return _publish_fetched(site, recipes)
        finally:
            site.empty()


def _publish_fetched(site: BucketSite, recipes: Mapping[str, FindRecipe]) -> Outcome:
    for _ in range(LOOKS):
        site.empty()
        claim = find_claim(site.objects)
        if (claim is None or claim.publishes) and site.find_manifest() is not None:
            manifest = read_manifest(site.folder)
            site.claim = claim  # left by one that was killed at the very end
            site.remove_work()
            return Outcome(out=site.out, manifest=manifest, was_complete=True)
        if claim is not None and claim.is_damaged:
            raise damaged(site.objects)
        work = make_work(site.folder)
        try:
            if claim is not None and claim.identity:
                _fetch_work(StoredWork(objects=site.objects, run=claim.run), claim.identity, work)
            return _publish(site.out, work, recipes, f"stop all elements, remove {site.out}/{WORK}")
        except DataprepError as error:
            if claim is not None and _is_published(site, claim.identity):
                continue  # another process did so meanwhile, and removed what this one needs
            if isinstance(error, NoSuchObjectError):
                raise ConflictError(
                    f"another process has removed the work in {site.out} ({error})"
                ) from None
            raise
    raise crowded(site.objects)


def _fetch_work(stored: StoredWork, identity: Identity, work: Path) -> None:
    """Bring what is needed to publish a run in a bucket."""
    found = [entry.name for entry in stored.objects.entries(stored.prefix)]
    fetch_plan(stored, planned_names(stored, found), work)
    if found:  # else its first element was killed before it had put anything there
        write_sealed(work / IDENTITY, json.dumps(identity).encode())


def _is_published(site: BucketSite, begun: Identity) -> bool:
    identity = {key: value for key, value in begun.items() if key != "work_version"}
    return is_published(site.objects, fingerprint(identity), site.folder)


def _publish(
    out: Path | str, work: Path, recipes: Mapping[str, FindRecipe], how_to_throw_away: str
) -> Outcome:
    begun = begun_to_continue(work)
    if begun is None:
        raise CorruptError(
            f"{out} has no unfinished work that this dataprep could publish; run the elements of "
            "the array first (dataprep tokenize --task I/N)"
        )
    why = why_distrusted(work)
    if why is not None:
        raise CorruptError(
            f"the work in {work if isinstance(out, Path) else out} cannot be used ({why}); throw "
            f"it away ({how_to_throw_away}) and run all elements again"
        )
    find = recipes.get(str(begun.get("kind")))
    if find is None:
        raise ConfigError(f"{out} has unfinished work of another command; run that again")
    array = array_of(work)
    folder = array.folder if array and os.path.isdir(array.folder) else ""
    with chdir(folder) if folder else nullcontext():
        recipe = find(out, work)
        return make_dataset(_publishing(recipe, array.count if array else 0, work))


def _publishing(recipe: Recipe[Any, Any], count: int, planned: Path) -> Recipe[Any, Any]:
    """Return the recipe of a run that only publishes, if nothing is left to be done. What was
    planned stands in a work folder, which may be another than that of the run."""

    def begin(plan: Any, work: Path, report: Report) -> Work[Any]:
        if not planned.samefile(work):
            shutil.copytree(planned, work, dirs_exist_ok=True)
        jobs = recipe.begin(plan, work, report)
        left = jobs.markers.left()
        if left:
            raise _missing(left, jobs.sizes, count, jobs.describe)
        return jobs

    return replace(recipe, begin=begin)


def _missing(
    left: Sequence[int], sizes: Sequence[float], count: int, describe: Callable[[int], str]
) -> ResourceError:
    """Return the error that names what is not done, and which elements do it."""
    what = f"{counted(len(left), 'job')} of {len(sizes):,} not done, the first {describe(left[0])}"
    if not count:
        return ResourceError(f"{what}; run the same command again")
    owners = owners_of(sizes, count)
    wanted = sorted({owners[job] for job in left})
    named = " ".join(f"{number}/{count}" for number in wanted[:MOST_NAMED])
    more = f" and {len(wanted) - MOST_NAMED:,} more" if len(wanted) > MOST_NAMED else ""
    return ResourceError(f"{what}; run again with --task {named}{more}, then finalize")
