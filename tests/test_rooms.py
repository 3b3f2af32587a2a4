"""The house stays in order: a room imports only from rooms above it, and two walls hold."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GROUND_ROOMS = {"guards", "threads"}
GROUND = {
    "types",
    "errors",
    "files",
    "caches",
    "hashes",
    "ragged",
    "typed",
    *GROUND_ROOMS,
}

# Rooms that a room may import, besides itself and the ground; `configs` is allowed where named.
ABOVE: dict[str, set[str]] = {
    "storage": set(),
    "synthetic": set(),
    "sources": {"storage", "synthetic"},
    "media": {"storage", "sources", "configs"},
    "engine": set(),
    "encoders": {"sources", "configs"},
    "modalities": {"configs"},
    "documents": {"storage", "sources", "engine", "modalities", "configs"},
    "jobs": {"storage", "configs"},
    "tokenize": {
        *("storage", "sources", "engine", "modalities", "documents", "jobs"),
        "configs",
    },
    "pack": {"storage", "jobs", "configs"},
    "encode": {"storage", "sources", "media", "encoders", "jobs", "configs"},
    "sniff": {"storage", "sources", "documents", "configs"},
    "run": {
        *("storage", "sources", "media", "engine", "documents", "jobs"),
        *("tokenize", "pack", "encode", "sniff", "configs"),
    },
    "look": {
        *("storage", "sources", "media", "encoders", "modalities", "pack"),
        "configs",
    },
    "export": {"storage", "jobs", "look", "configs"},
    "sample": set(),
}
# What stands beside the pipeline.
BESIDE: dict[str, set[str]] = {
    "configs": set(),
    "loaders": {"storage", "synthetic"},
    "cli": {
        *("configs", "loaders", "sample", "engine", "encoders", "storage", "jobs"),
        *("tokenize", "pack", "encode", "run", "look", "export"),
    },
}


def imported_modules(path: Path) -> Iterator[str]:
    """Modules of dataprep that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} imports relatively"
            yield node.module
            # `from dataprep.pipeline import jobs` imports a room, too
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str | None:
    """The room that a module is in; None for the ground and for other packages."""
    parts = module.split(".")
    if parts[0] != "dataprep" or len(parts) < 2 or parts[1] == "__version__":
        return None
    if parts[1] != "pipeline":
        return parts[1]
    if len(parts) < 3 or parts[2] in GROUND:
        return None
    return parts[2] if parts[2] in ABOVE else None


def files_of(room: str) -> list[Path]:
    is_beside = room in BESIDE or room == "pipeline"
    return sorted((ROOT / room if is_beside else ROOT / "pipeline" / room).rglob("*.py"))


def test_every_folder_of_the_pipeline_is_a_room_of_the_table() -> None:
    folders = {path.name for path in (ROOT / "pipeline").iterdir() if path.is_dir()}
    assert folders - {"__pycache__", *GROUND_ROOMS} == set(ABOVE)


def test_only_the_ground_floor_stands_flat_in_the_pipeline() -> None:
    flat = {path.stem for path in (ROOT / "pipeline").glob("*.py")}
    assert flat == {"__init__", *GROUND} - GROUND_ROOMS


def test_the_table_itself_has_no_way_back() -> None:
    order = list(ABOVE)
    for room, above in ABOVE.items():
        assert above - {"configs"} <= set(order[: order.index(room)]), room


@pytest.mark.parametrize("room", [*ABOVE, *BESIDE])
def test_a_room_imports_only_from_rooms_above_it(room: str) -> None:
    allowed = {*ABOVE.get(room, set()), *BESIDE.get(room, set()), room, None}
    for path in files_of(room):
        for module in imported_modules(path):
            assert room_of(module) in allowed, f"{path.relative_to(ROOT)} imports {module}"


def test_the_ground_imports_nothing_above_it() -> None:
    flat = [ROOT / "pipeline" / f"{name}.py" for name in GROUND - GROUND_ROOMS]
    rooms = [path for room in GROUND_ROOMS for path in files_of(room)]
    for path in [*flat, *rooms]:
        for module in imported_modules(path):
            assert room_of(module) is None, f"{path.name} imports {module}"


def defines_a_format(path: Path) -> bool:
    """A format is a file and a line of the table, which draws it."""
    classes = [n for n in ast.parse(path.read_text("utf-8")).body if isinstance(n, ast.ClassDef)]
    return any(isinstance(b, ast.Name) and b.id == "Format" for c in classes for b in c.bases)


def test_every_room_draws_its_files_at_its_door() -> None:
    for room in [*GROUND_ROOMS, *ABOVE, "loaders"]:
        folder = ROOT / room if room in BESIDE else ROOT / "pipeline" / room
        doc = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
        assert doc, room
        files = [path for path in folder.glob("*.py") if not defines_a_format(path)]
        names = {path.stem for path in files} - {"__init__"}
        missing = {name for name in names if name not in doc.replace("/", " ")}
        assert not missing, f"{room}/__init__.py does not draw {sorted(missing)}"


def test_no_two_classes_have_one_name() -> None:
    found: dict[str, list[str]] = {}
    for path in (path for room in [*BESIDE, "pipeline"] for path in files_of(room)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_tests_stand_in_folders_named_like_the_rooms() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    # What goes wrong outside goes through all the rooms.
    assert folders - {"__pycache__", "support", "faults"} <= {
        *GROUND_ROOMS,
        *ABOVE,
        *BESIDE,
    }


def test_the_map_names_every_room() -> None:
    doc = (ROOT / "pipeline" / "__init__.py").read_text(encoding="utf-8")
    assert all(room in doc for room in ABOVE)


def test_the_readme_draws_every_folder_and_room() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    drawn = text[text.index("## Layout of the code") :]
    folders = [*BESIDE, *ABOVE, "src/dataprep", "pipeline", "docs", "examples", "tests", "scripts"]
    assert [name for name in folders if f"{name}/ " not in drawn] == []
    assert [name for name in GROUND if f" {name}" not in drawn] == []


@pytest.mark.parametrize(
    ("worker", "forbidden"),
    [
        ("tokenize", {"jax", "numba", "datasets"}),
        ("encode", {"jax", "numba", "tokenizers", "datasets"}),
        (
            "pack",
            {"jax", "numba", "tokenizers", "datasets", "fastokens", "dataprep.pipeline.engine"},
        ),
        (
            "export",
            {"jax", "numba", "tokenizers", "datasets", "fastokens", "dataprep.pipeline.engine"},
        ),
    ],
)
def test_a_worker_imports_no_more_than_it_needs(worker: str, forbidden: set[str]) -> None:
    assert not imported_by(f"dataprep.pipeline.{worker}.worker") & forbidden


def test_a_trainer_imports_no_more_than_it_needs() -> None:
    offline = {"jax", "numba", "tokenizers", "pydantic", "yaml", "pyarrow", "fsspec", "zstandard"}
    for_messages, for_documents = {"difflib"}, {"array_record"}
    unneeded = offline | for_messages | for_documents
    assert not imported_by("dataprep.loaders") & unneeded


def imported_by(module: str) -> set[str]:
    """Return all modules that are there when one was imported by itself."""
    code = f"import sys, {module}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    imported = set(done.stdout.split())
    assert module in imported
    return imported
