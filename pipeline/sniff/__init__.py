"""Find out what data is, by its first records, so that a config can be suggested for it.

    inputs ─► look          what they name, and the first records of it
              columns       keys of the records, nested ones too: what stands under each
              codes         lists of integers: of which modality, how large, how framed
              findings      columns ─► texts, pairs, conversations, preferences, codes
              groups        records of one kind are a corpus: its name, and patterns for its files
              tokenizers    a tokenizer.json near the data
              lengths       tokens of the first documents ─► a length for rows

Knows what `tokenize` can read, and nothing of how a config is written.
"""
