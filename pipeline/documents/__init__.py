"""Records → documents: tokens with masks.

field       Field(kind="text", keys=("answer",), weight=0.5), and the grammar of names
kinds       each kind of field: how it is spelled, which parts it becomes (FIELD_KINDS)
fields      "[prompt],hint?,answer*0.5" ─► fields with their weights, as LWM writes them
settle      which of the fields a record has: those that depend on its keys
rule_set    Rules: how the records of one input become documents
rules       config and tokenizer ─► Rules
lookup      the value of a field of a record, or an error that says what is wrong with it
codes       [754, 1512], base64, .npy ─► arrays of integers
lay_out     one record ─► parts: BOS | text | codes | EOS, each with its weight
parts       parts of documents as they are added; the codes of all are wrapped at once
batch       the columns of a batch, and which of its records have the same fields
columns     batches whose records have the same parts ─► a layout, by arrays
rows        records one by one ─► a layout: segments, specs of their own, bad records
assemble    encoded texts ─► tokens and masks of many documents
budgets     texts cut to a number of tokens, by sentence, word or token
objectives  fill in the middle, span corruption, sides: new documents of those (OBJECTIVES)
process     a batch of records ─► documents, by all of these
chat/       conversations ─► parts of text with weights, by chat templates
conversations   a batch of conversations ─► documents
numbers     lists of numbers of records ─► flat arrays
pretokenized    a batch of records that hold token ids ─► documents
pairs       preferences: two rows of a record ─► one document of two sides
keys        the hash of what a record's documents were made of, and of its group
together    small batches in one call, so that many small files cost little
"""
