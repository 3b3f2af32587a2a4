"""What users, tables and configs name: may it be opened, may it be shown, was it given twice.

    a name or URL ─► opening      only regular files, never one that waits or never ends
                  ─► addresses    where in a URL credentials may stand
                  ─► secrets      public names for what is shown or written
                  ─► twice        one file under two spellings
                  ─► hub          whether the hub answers, and which of its names was meant
    what is missing  ─► extras    the packages to install
    a bad record  ─► excerpts     its beginning, short and without credentials

Part of the ground floor: `errors` and `types` stand on it. Knows nothing of formats or datasets.
"""
