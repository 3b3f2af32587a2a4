"""Formats of other trainers: arrays ↔ bytes, as pure functions. Exports write them, imports read.

varints     whole numbers as varints, many at once
kernels     the same compiled, for many numbers
tfexample   tf.train.Example of lists of whole numbers
megatron    .idx of Megatron-LM: lengths, places, documents
mds         shards and index.json of mosaicml-streaming
megatron_read     .idx of Megatron-LM ─► lengths, places, documents
mds_read          a shard of MosaicML streaming ─► columns
tfexample_read    tf.train.Example ─► features, many records at once
"""
