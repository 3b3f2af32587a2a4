"""One door to object stores: S3, Google Cloud Storage, Azure, by obstore.

    is_remote("s3://bucket/packed")             True: a place that datasets are written to
    objects = open_objects("s3://bucket/packed")
    objects.put("shards/a.arrayrecord", path)   whole or not at all; again and again if need be
    objects.create("manifest.json", data)       only if there is none: of two writers one succeeds
    for entry in objects.entries("shards/"):    name, size, e_tag

stores      the client of a bucket, with the credentials of the environment
objects     Objects, a folder in a bucket: get, put, create, replace, copy, delete, entries
failures    what a store's errors mean to the user; trying again
"""

from dataprep.pipeline.storage.objects.failures import (
    ChangedMeanwhileError,
    NoSuchObjectError,
    ThereAlreadyError,
)
from dataprep.pipeline.storage.objects.objects import ObjectEntry, Objects, open_objects
from dataprep.pipeline.storage.objects.stores import SCHEMES, cleaned, is_remote

__all__ = [
    "SCHEMES",
    "ChangedMeanwhileError",
    "NoSuchObjectError",
    "ObjectEntry",
    "Objects",
    "ThereAlreadyError",
    "cleaned",
    "is_remote",
    "open_objects",
]
