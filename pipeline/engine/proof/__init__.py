"""Does a fast engine give the same ids as the reference? Tried once for a tokenizer, remembered.

    code_points   every code point in contexts that show its class: aéb, 1é234, !!é!!
    specimens     words, scripts, white space and emoji that random texts are put together from
    fuzz          a seed -> the same random texts each time, and plain ones to measure speed on
    sweep         all of these as documents: "aéb aêb aëb …"
    compare       two encodings -> the texts whose ids differ: [1, 4]
    trial         a document differs -> each unit alone -> é is bad, or the engine is ruled out
    speed         plain text -> MB/s of each engine on one thread, as workers use it
    record        the result as a file of the cache: Proof(engine="fastokens", equal=True, …)
    prove         runs the trials of several engines together

`select` asks `prove_all` and takes the fastest engine that is equal.
"""
