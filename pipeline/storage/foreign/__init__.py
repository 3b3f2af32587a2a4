"""Formats of other trainers: arrays ↔ bytes, as pure functions. Exports write them, imports read.

megatron_read     .idx of Megatron-LM ─► lengths, places, documents
mds_read          a shard of MosaicML streaming ─► columns
tfexample_read    tf.train.Example ─► features, many records at once
"""
