"""The modules of the tree, by their files."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("cli", "configs", "loaders", "pipeline")
# Packages that a module may import at its top although an install can lack them: torch is an extra,
# and numba is left out on Pythons that it does not support.
OPTIONAL = ("numba", "torch")


def modules_of(folder: str) -> dict[str, Path]:
    """dataprep.FOLDER and everything under it: {"dataprep.cli.main": …/cli/main.py, …}."""
    found = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(("dataprep", *parts)).removesuffix(".__init__")] = path
    return found
