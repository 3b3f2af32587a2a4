"""Datasets for people: what is in them, whether they are whole, where it came from.

records     the records of a shard, by ArrayRecord's own reader
verify      every hash, count, id, boundary and mask; checks: what is in one shard
stats       lengths, loss, padding, segments, vocabulary
inspect     a document or row as spans of text, and blocks of codes by their shape
origins     where a document came from: file, line, byte; what lies in a row
encoded     which dataset of codes a document's codes are from
decoders    who can decode them
media       blocks of codes as PNG and WAV files
"""
