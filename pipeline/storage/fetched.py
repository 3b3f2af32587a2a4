"""Datasets in buckets, brought into the cache folder to be read.

    s3://bucket/tokenized ─► ~/.cache/dataprep/datasets/5f3c…/tokenized/manifest.json, shards/…
                                                        5f3c…/fetched.json    address, e_tag

Brought once: as long as the manifest in the bucket is the same, the files here are. Each is
compared with the hash that its upload left with it. They are as large as the dataset, and stay
until somebody removes the folder; a loader has a cache of its own, with a bound.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dataprep.pipeline.caches import default_cache, own_turn
from dataprep.pipeline.errors import ConfigError, CorruptError, ResourceError
from dataprep.pipeline.files import make_folder, read_sealed, write_sealed
from dataprep.pipeline.hashes import hash_bytes
from dataprep.pipeline.storage.checked import AGAIN
from dataprep.pipeline.storage.kinds import files_of
from dataprep.pipeline.storage.manifest import MANIFEST, WORK, read_manifest
from dataprep.pipeline.storage.objects import NoSuchObjectError, ObjectEntry, Objects, open_objects
from dataprep.pipeline.storage.parts import PARTS
from dataprep.pipeline.threads.several import in_threads

DATASETS = "datasets"  # in the cache folder
FETCHED = "fetched.json"
_DOWNLOADS = 8
_LISTED = ", though its manifest lists it"
_MEND = f"copy it there again from where it is whole, or {AGAIN}"


def fetched(url: str) -> Path:
    """Return the folder here that has the dataset of a bucket, whole and as it is there now."""
    objects = open_objects(url)
    objects.check_bucket()
    try:
        manifest = objects.entry(MANIFEST)
    except NoSuchObjectError:
        raise ConfigError(
            f"{objects.url} is not a dataset: there is no {MANIFEST}, which comes last; finish the "
            "run that writes it, or name another"
        ) from None
    home = default_cache() / DATASETS / hash_bytes(objects.url.encode())[:16]
    folder = home / objects.url.rpartition("/")[2]
    note = json.dumps({"url": objects.url, "e_tag": manifest.e_tag}).encode()
    with own_turn(home):
        if read_sealed(home / FETCHED) != note:
            (home / FETCHED).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            try:
                names = _fetch(objects, folder)
                is_same = objects.entry(MANIFEST).e_tag == manifest.e_tag
            except NoSuchObjectError:
                is_same = False
            if not is_same:  # what has come may be of both
                shutil.rmtree(folder, ignore_errors=True)
                raise ResourceError(
                    f"{objects.url} was replaced or removed while it was fetched; run the same "
                    "command again when nothing writes to it"
                )
            _check_all_there(objects, folder, names)
            write_sealed(home / FETCHED, note)
    return folder


@contextmanager
def damage_if_gone() -> Iterator[None]:
    """Of a dataset, an object that is not there is damage."""
    try:
        yield
    except NoSuchObjectError as error:
        is_of_part = f"/{PARTS}/" in str(error)
        of_older = "; a newer generation may do without it, or" if is_of_part else ";"
        raise CorruptError(f"{error}{_LISTED}{of_older} {_MEND}") from None


def name_of(folder: Path) -> str:
    """Return what the user calls a dataset: the address of one that was fetched."""
    data = read_sealed(folder.parent / FETCHED)
    if data is None or folder.parent.parent.name != DATASETS:
        return str(folder)
    return str(json.loads(data)["url"])


def _check_all_there(objects: Objects, folder: Path, names: Collection[str]) -> None:
    """Else it would be looked for here, and not found even when it is in the bucket again."""
    try:
        manifest = read_manifest(folder)
    except CorruptError:  # whoever reads it says so
        return
    for file in files_of(manifest):
        if file.path not in names:
            raise CorruptError(f"{objects.at(file.path)} does not exist{_LISTED}; {_MEND}")


def _fetch(objects: Objects, folder: Path) -> Collection[str]:
    """Bring all objects, and return their names."""
    found = [e for e in objects.entries() if not e.name.startswith(f"{WORK}/")]
    free = shutil.disk_usage(folder.parent).free
    size = sum(entry.num_bytes for entry in found)
    if size > free:
        raise ConfigError(
            f"{objects.url} has {size:,} bytes, but {folder.parent} only {free:,} free; make room, "
            "or name a folder on a larger disk in DATAPREP_CACHE"
        )
    for place in {Path(entry.name).parent for entry in found}:
        make_folder(folder / place)

    def bring(entry: ObjectEntry) -> None:
        objects.download(entry.name, folder / entry.name)

    in_threads(bring, [e for e in found if e.name != MANIFEST], _DOWNLOADS)
    # The manifest last: what is cut short here is no dataset. No hash is kept with it.
    for entry in [e for e in found if e.name == MANIFEST] * 2:
        bring(entry)
        with suppress(CorruptError):  # else it may have been damaged on its way
            read_manifest(folder)
            break
    return {entry.name for entry in found}
