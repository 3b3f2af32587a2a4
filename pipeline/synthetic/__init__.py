"""Made-up texts, pictures and sounds, as arrays: pure functions of a seed and a number.

    texts      sentences, repeated phrases, number sequences, palindromes
    images     codes; or pictures: noise, gradients, checkerboards, circles, digits
    sounds     codes; or waveforms: sine, noise, chirp
    pairs      a picture, a sound and a text that agree more or less
    draws      the random words of a record

Record i is a pure function of (seed, i), made from raw Philox words with whole numbers only: it is
the same on every machine and in every version of numpy. `sources` reads them as inputs,
`loaders.compat` hands them out as they are. Imports numpy alone.
"""
