"""What the command `dataprep` starts: the package, if it is this one.

Another distribution is called dataprep, too, and installs a package of the same name. Which of them
Python finds depends on the order of the installs; this module has a name of its own.

Its first act is to take the signals: until the command has begun (`dataprep.cli.stopping`) there is
nothing to put in order, so that one ends the process at once. All else is imported after that.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # as `typing` has it, whose import takes some milliseconds
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

MARK = b"distribution: dataprep-jax"  # stands in our __init__.py

INSTALL = "install this one again: pip install --force-reinstall --no-deps, and its folder or name"


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: os._exit(128 + number))
    from importlib.util import find_spec

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
    with open(spec.origin, "rb") as file:
        return "" if MARK in file.read() else os.path.dirname(spec.origin)


if __name__ == "__main__":
    main()
