"""What the command `dataprep` starts: the package, if it is this one.

Another distribution is called dataprep, too, and installs a package of the same name. Which of them
Python finds depends on the order of the installs; this module has a name of its own.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

MARK = b"distribution: dataprep-jax"  # stands in our __init__.py


INSTALL = "install this one again (pip install --force-reinstall --no-deps dataprep-jax)"


def main() -> None:
    spec = find_spec("dataprep")
    if spec is None:
        sys.exit(f"dataprep: Python does not find the package of this name; {INSTALL}")
    other = _place_of_other(spec)
    if other:
        sys.exit(
            f"dataprep: Python finds another package of this name, in {other}; remove it "
            f"(pip uninstall dataprep), then {INSTALL}"
        )
    from dataprep.cli.main import main as run

    run()


def _place_of_other(spec: ModuleSpec) -> str:
    """Return where the package is if it is not ours, else ''."""
    if spec.origin is None:  # a folder without __init__.py
        return ", ".join(spec.submodule_search_locations or ())
    file = Path(spec.origin)
    return "" if MARK in file.read_bytes() else str(file.parent)
