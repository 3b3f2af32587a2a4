"""Look at datasets: what is in them, whether they are whole, where it came from.

records     the records of a shard, by ArrayRecord's own reader
verify      every hash, count, id, boundary and mask
checks/     what is in the shards of each kind, and in the folder
row_rules   what must hold in packed rows
history     the generations of a dataset that grows: when, what came in
stats       lengths, loss, padding, segments, vocabulary
groups      documents and tokens by source, by file or by the value of a key
keys        values of a key in the raw records, read again
codes       a record of codes: its shape, its source, its columns; how codes are used
inspect     a document or row as spans of text, and blocks of codes by their shape
origins     where a document came from: file, line, byte; which pieces are in a row
lookup      documents by file and line, and the rows that hold them
reasons     why records were quarantined, the most frequent first
listing     documents that packing truncated, dropped or split, and where they are from
encoded     the dataset of codes that a document's codes are from
decoders    the encoder that can decode them
media       blocks of codes as PNG and WAV files
"""
