"""Manifests with other values, and a checksum that fits them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dataprep.pipeline.storage.manifest import sealed


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the values of a manifest, and its checksum with them."""
    path = folder / "manifest.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    del values["checksum"]
    change(values)
    path.write_bytes(sealed(values))
