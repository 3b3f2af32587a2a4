"""Made-up records: `synthetic:text|image|audio|paired?n=1000&seed=0`, for trials and tests.

    source     the names, their options, and the format that reads them
    texts      sentences, repeated phrases, number sequences, palindromes
    images     codes; or pictures: noise, gradients, checkerboards, circles, digits
    sounds     codes; or waveforms: sine, noise, chirp
    pairs      a picture, a sound and a text that agree more or less
    draws      the random words of a record

Record i is a pure function of (seed, i), made from raw Philox words with whole numbers only: it is
the same on every machine and in every version of numpy.
"""

from dataprep.pipeline.sources.synthetic.source import PREFIX, Synthetic, find_synthetic, make

__all__ = ["PREFIX", "Synthetic", "find_synthetic", "make"]
