"""Records that are conversations → documents, by chat templates, with masks that are right.

forms        the forms in which datasets hold conversations; FORMS
messages     nulls, JSON in strings, calls without a wrapper ─► messages for templates
rules        what is known about the conversations of an input
read         a record ─► conversations, each message with its weight
templates    a tokenizer's chat templates, its special tokens, the tokens that end a turn
bounds       what a template may make, in all
costs        what methods and filters make of a text, told before
filters      filters and tests that keep the origins of texts
sandbox      the environment that templates run in
json_text    tojson of texts that know their origin
tape         what a template did, as a function that does it again
origins      parts of texts, each with its origin: cut, stripped, joined
traced       what is known about such a text, and what the tape learns of it
texts        texts that know where each of their characters came from, whatever is done to them
loops        which message a template is at, by these marks
marks        marks in the output: which message the template is at
render       a conversation ─► parts, of which each has an origin and an owner
traits       in which form a template takes contents and arguments
blocks       which parts of the output are a message's
header_text  what the texts around messages have in common
headers      what a template writes before the text of a message, and after an answer
gaps         what is written in no loop goes to the messages that it stands between
refused      why a conversation has no mask
cutting      what a template wrote, cut where spans begin and end
ends         where a turn ends
spans        which characters have loss, or why that is not certain
thinking     thinking that a template does not write
edges        where turns begin, though a template writes other things at that message
lay          conversations ─► strings with weights; shapes that were seen before are replayed
content      what of a conversation is hashed, so that equal ones are known
media        parts of messages that are no text: blocks of codes in their place
weigh        weights of strings ─► weights of tokens
batch        a batch of records ─► documents, by all of these
"""
