"""Plan, execute, publish: how every dataset is made, written once.

make        make_dataset: how tokenize, pack and encode all run
recipes     Recipe: what a command must define so that its dataset can be made
workspace   the output folder: its lock, whether a run can be continued
differences what two identities of datasets differ in, for messages
ownership   whose files are in it: what is not ours is never removed
overlap     an output folder that is, holds or lies in what is read
plans       plans as files, by which workers know what to do
tasks       tasks, named by the content that they read
foresee     what a run would find in the output folder, for --dry-run
sites       where a dataset is made: a folder here, or one in a bucket
buckets     a bucket with a staging folder here; placing: how the dataset is published there
claims      whose turn it is in a bucket, which has no locks
stored      what workers commit goes to the bucket; joined: another machine takes part
            stored_plans, stored_markers: what of its work comes here and goes there
shares      which jobs an element of a task array does; elements: how it does them;
            places_of_elements: in which folder; bucket_elements: if that is in a bucket
finalize    publish what elements have made
executors   EXECUTORS: run jobs on workers; processes: on this machine; worker: their side
cluster     the same on a cluster of Ray; slots: a worker on one of its machines
crew        who gets which job, who is stuck; trail: what a worker is doing; pipes: messages
handed      memory that workers share with their parent; kept: workers for the next run
poison      records that kill their worker; deaths: how workers die
progress    how a worker reports its progress
commits     files of a task and their markers
limits      too many bad records, or nothing left
accounts    what became of the records of each source
publish     name the shards, move them, write the manifest last
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataprep.pipeline.jobs.make import make_dataset, silent

__all__ = ["make_dataset", "silent"]


def __getattr__(name: str) -> Any:
    # Imported on first use: workers import this package too, and need none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("dataprep.pipeline.jobs.make"), name)
