"""THE MAP. Rooms stand in the order of the data; a room imports only from rooms above it.

    ground       types  errors  files  caches  hashes  ragged  typed
    guards       what may be opened, shown, given twice; on the ground floor, too
    threads      several at once, and at the interpreter's exit; on the ground floor, too
    storage      arrays ↔ bytes ↔ manifest           ◄── loaders import these two rooms and the
    synthetic    made-up texts, pictures, sounds      ┘  ground only
       │
    sources      raw records in: JSON, Parquet, text, CSV, tars, the hub
    media        pictures, videos, sounds in, read and checked
    engine       text → ids, by the fastest engine that is proven equal
    encoders     media → codes
    modalities   codes → blocks of ids
       │
    documents    records → tokens with masks: fields, segments, codes
       │
    jobs         plan → execute → publish, written once for every command
       │
    tokenize     raw corpora → tokenized dataset      ┐
    pack         tokenized → packed dataset           ├ one recipe each
    encode       media → dataset of codes             ┘
       │
    sniff        first records → what data is
    run          the chain over data that grows: generations, splits, what to forget
       │
    look         inspect, verify, stats
    export       datasets ─► the files of other trainers
    sample       the embedded sample: data, no code

`tests/test_rooms.py` holds the table of who may import whom.
"""
