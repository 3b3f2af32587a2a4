"""LWM's `lwm.data` over packed datasets: change one import, and the paths.

    from dataprep.loaders.compat.lwm import DatasetFactory        # was: from lwm.data import …

    --train_dataset.json_dataset.path=data/packed                 # was: data.jsonl

    datasets     DatasetFactory, HuggingfaceDataset, JsonDataset, JsonVisionDataset
    batches      what these have in common: batches, metrics, states
    settings     their configs, checked against what the dataset was made with
    processors   TextProcessor, VisionTextProcessor: one example to tokens and masks
    stream       rows and tokens in order, for ever, from any place on
    examples     which example of its file a row ends with
    throughput   tokens a second

The same batches as LWM's own on one host: the stream of `--strategy concat` goes on across the end
of the file, token by token; `--strategy pad` has one example a row. Tokenize and pack with `compat:
lwm` to have its loss on the first tokens of documents, too.

Where LWM is wrong, these are right:

    resuming      goes on with the next token; LWM loses what it had buffered, and is off by a line
    many hosts    rows of one stream, whatever the number of hosts; LWM cuts a stream for each host,
                  and replays lines when it resumes
    the `pad` of  one example a row; LWM's rows drift by one token each, and skip examples. (The pad
    JsonDataset   of vision is LWM's; its shifted loss comes with `compat: lwm` of pack)
    node_info     may be left out; LWM's evaluation fails without, its HuggingfaceDataset with it
    endless loops files without a batch are errors; LWM waits for ever
    throughput    dataset_average_tps is right from the first step on; LWM's is near 0 for 200 steps
    always_start_with_bos and tokens_count_at_start hold for vision, too; LWM passes over them
"""

from dataprep.loaders.compat.lwm.datasets import (
    DatasetFactory,
    HuggingfaceDataset,
    JsonDataset,
    JsonVisionDataset,
)
from dataprep.loaders.compat.lwm.processors import TextProcessor, VisionTextProcessor

__all__ = [
    "DatasetFactory",
    "HuggingfaceDataset",
    "JsonDataset",
    "JsonVisionDataset",
    "TextProcessor",
    "VisionTextProcessor",
]
