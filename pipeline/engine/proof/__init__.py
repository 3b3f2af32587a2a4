"""Prove that a fast engine gives the same ids as the reference, once per tokenizer; then cached.

    code_points   every code point in contexts that show its class: aéb, 1é234, !!é!!
    specimens     words, scripts, white space and emoji that random texts are made of
    fuzz          a seed -> the same random texts each time
    sweep         all of these as documents: "aéb aêb aëb …"
    compare       two encodings -> the texts whose ids differ: [1, 4]
    trial         a document differs -> each unit alone -> é is bad, or the engine is ruled out
    record        the result as a file in the cache: Proof(engine="fastokens", equal=True, …)
    shipped       results that come with the package, for well-known tokenizers
    prove         runs the trial of an engine, or finds its result in the cache or the package

`select` takes the first engine of a fixed order that is equal; none is ever timed.
"""
