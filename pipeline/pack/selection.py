"""Pack some of the documents: those to which a file gives one number.

    file        0 1 0 255 0 1      u8, one for each document of all inputs in order
    value       0                  documents 0, 2 and 4 are packed
    reasons     {"255": "documents_forgotten"}
    counts      documents_forgotten 1, documents_elsewhere 2

Rows are planned as if there were no other documents: the plan sees those that are selected,
numbered through (`selected`). The file is read once; a dataset is known by the file's bytes, not by
its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.pack import SelectConfig
from dataprep.pipeline.errors import ConfigError, InputError, counted
from dataprep.pipeline.guards.opening import check_regular, open_regular, why_unusable
from dataprep.pipeline.hashes import hash_bytes, hash_file
from dataprep.pipeline.storage.agreement import ELSEWHERE
from dataprep.pipeline.storage.checked import array_in, length_in
from dataprep.pipeline.types import Mask, Offsets

NUMBER = np.dtype("u1")
HEADER_BYTES = 1 << 16  # more than any .npy file has before its array


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSelection:
    """The number of every document, and which number is packed."""

    path: Path
    xxh3_128: str  # of the bytes of the file
    numbers: NDArray[np.uint8]  # u8[documents of all inputs]
    value: int
    reasons: Mapping[int, str]  # names of counts by number

    def has(self, document: Offsets) -> Mask:
        """Return which of these documents are selected."""
        is_selected: Mask = self.numbers[document] == self.value
        return is_selected

    def counts(self) -> dict[str, int]:
        """Return how many documents are not selected, by the names of the reasons."""
        found = dict.fromkeys((*self.reasons.values(), ELSEWHERE), 0)
        for number, count in enumerate(np.bincount(self.numbers, minlength=256).tolist()):
            if number != self.value:
                found[self.reasons.get(number, ELSEWHERE)] += count
        return found

    def changed(self) -> str:
        """Return the name of the file if it is not what was read any more, or ''."""
        try:
            check_regular(self.path)
            is_same = hash_file(self.path) == self.xxh3_128
        except OSError:
            is_same = False
        return "" if is_same else str(self.path)


def read_selection(config: SelectConfig, num_documents: int) -> DocumentSelection:
    """Read the file that gives each of so many documents a number."""
    if not config.file:
        raise ConfigError("select names no file; set select.file to an .npy of uint8")
    path = Path(config.file)
    try:
        with open_regular(path) as file:
            data = _read(file, num_documents + HEADER_BYTES)
    except (OSError, ValueError) as error:
        why = why_unusable(path, error if isinstance(error, OSError) else None)
        raise InputError(f"select.file {path} {why}") from None
    found = length_in(data, NUMBER)
    if found is not None and found != num_documents:
        raise InputError(
            f"select.file {path} has {counted(found, 'number')}, but the inputs have "
            f"{counted(num_documents, 'document')}; it must have one for each, in their order"
        )
    return DocumentSelection(
        path=path,
        xxh3_128=hash_bytes(data),
        numbers=array_in(path, data, NUMBER),
        value=config.value,
        reasons={int(number): name for number, name in config.reasons.items()},
    )


def _read(file: Any, most: int) -> bytes:
    """Return the bytes of a file, or as many as are looked at."""
    parts = []
    while most > 0 and (part := file.read(most)):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)
