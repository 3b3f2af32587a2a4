"""Records → documents: tokens with masks.

fields      "[prompt],answer*0.5" ─► fields with their weights, as LWM writes them
rules       the config and the tokenizer ─► how the records of one input become documents
lookup      a record's value of a field, or an error that says which field is wrong and how
codes       [754, 1512], base64, .npy ─► arrays of integers
lay_out     one record ─► parts: BOS | text | codes | EOS, each with its weight
parts       documents as parts, being laid out; codes wrapped in one stroke
columns     a batch whose records are alike ─► a layout, without a look at any one of them
rows        records one by one ─► a layout: segments, specs of their own, what is bad
assemble    texts encoded ─► tokens and masks of many documents
process     a batch of records ─► documents, by all of these
together    small batches in one call, so that many small files cost little
"""
