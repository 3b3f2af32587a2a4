"""The config of `dataprep export`: its keys, their defaults, what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from dataprep.configs.base import (
    SPLIT_NAME,
    TASK_TIMEOUT,
    BinHeader,
    Count,
    ExportName,
    FilePath,
    Model,
    Needs,
    ShardBytes,
    TaskTimeout,
    Workers,
)


def _formats(*names: ExportName) -> Needs:
    return Needs("to", f"to {' or '.join(names)}", lambda config: config.to in names)


SplitName = Annotated[str, Field(pattern=SPLIT_NAME)]


class ExportConfig(Model):
    """A dataset to the files of another trainer."""

    goes_with: ClassVar[Mapping[str, Needs]] = {
        "max_length": _formats("maxtext", "xlstm"),
        "split": _formats("xlstm", "hf", "nanogpt"),
        "header": _formats("nanogpt"),
    }

    dataset: FilePath = Field("", description="folder of a tokenized or packed dataset")
    to: ExportName | None = Field(None, description="the format: whose trainer reads it")
    generation: Annotated[int, Field(ge=0, lt=1 << 31)] | None = Field(
        None, description="of a dataset that grows: which one, from 0; default: the newest"
    )
    drop_masks: bool = Field(
        False, description="export also if the format cannot carry a mask, which is then lost"
    )
    max_length: Count | None = Field(
        None,
        description="with maxtext and xlstm: most ids of a record, the trainer's "
        "max_target_length; longer documents are cut into pieces",
    )
    split: SplitName = Field(
        "train", description="with xlstm, hf and nanogpt: name of the split, for names of files"
    )
    header: BinHeader = Field(
        "none", description="with nanogpt: llm.c writes the header of llm.c and modded-nanogpt"
    )

    out: FilePath = Field(
        "", description="folder to write the files to, also in a bucket: s3://, gs://, az://"
    )
    shard_bytes: ShardBytes = Field(
        256 << 20, description="join shards of the dataset into one file up to this size"
    )
    workers: Workers | None = Field(None, description="number of processes; default: one per core")
    task_timeout: TaskTimeout = TASK_TIMEOUT
