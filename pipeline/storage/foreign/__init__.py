"""Formats of other trainers: arrays ↔ bytes, as pure functions. Exports write them, imports read.

megatron    .idx of Megatron-LM: lengths, places, documents
"""
