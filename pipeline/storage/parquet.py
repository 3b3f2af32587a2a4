"""The columns of shards of codes, as the manifest lists them.

{"vision": "list<element: uint16>", "source": "string"}
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, Any


def columns_of(file: Path | IO[bytes]) -> dict[str, str]:
    """Return the type of each column by its name, as they are read from a file."""
    import pyarrow.parquet as pq

    return {field.name: str(field.type) for field in pq.read_schema(file)}


def stored_columns(schema: Any) -> dict[str, str]:
    """Return the same for a table of this schema: Parquet does not have all types of Arrow."""
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(schema.empty_table(), file)
    file.seek(0)
    return columns_of(file)
