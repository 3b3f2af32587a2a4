"""Which parts were searched for what is to be forgotten: none is searched twice for the same list.

    out/.run/searched/web.json     hashes of (part, list), of parts that hold nothing of the list

A run that finds nothing new would else read the keys of all documents. If the file is lost or
damaged, they are read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from dataprep.pipeline.files import make_folder, read_sealed, write_sealed
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.run.forgotten import ForgetRequest
from dataprep.pipeline.run.parts import STATE
from dataprep.pipeline.storage.kinds import TokenizedManifest
from dataprep.pipeline.storage.parts import checksum_of
from dataprep.pipeline.typed import decode_as

FOLDER = "searched"


class Searched:
    """The parts of a tokenized dataset that hold nothing of a list."""

    def __init__(self, dataset: Path, ledger: Sequence[ForgetRequest]) -> None:
        corpus = dataset.parent
        self._file = corpus.parent / STATE / FOLDER / f"{corpus.name}.json"
        self._ledger = fingerprint({"requests": [request.as_json() for request in ledger]})
        self._known = set(decode_as(read_sealed(self._file) or b"[]", list[str]))

    def has(self, part: TokenizedManifest) -> bool:
        return self._key(part) in self._known

    def write(self, parts: Iterable[TokenizedManifest]) -> None:
        """Write that these parts were searched, and others may be again."""
        known = {self._key(part) for part in parts}
        if known != self._known:
            make_folder(self._file.parent)
            write_sealed(self._file, json.dumps(sorted(known)).encode())

    def _key(self, part: TokenizedManifest) -> str:
        return fingerprint({"part": checksum_of(part), "list": self._ledger})
