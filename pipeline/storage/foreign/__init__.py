"""Formats of other trainers: arrays ↔ bytes, as pure functions. Exports write them, imports read.

varints     whole numbers as varints, many at once
tfexample   tf.train.Example of lists of whole numbers
megatron    .idx of Megatron-LM: lengths, places, documents
mds         shards and index.json of mosaicml-streaming
"""
