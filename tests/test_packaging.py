"""What an installed dataprep holds, and what its parts must not import."""

from __future__ import annotations

import ast
import filecmp
import json
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterable
from importlib.metadata import packages_distributions, version
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement

import dataprep
from dataprep.pipeline.encoders import find_encoder
from dataprep.pipeline.encoders.registry import BUILT_IN
from dataprep.pipeline.guards.extras import EXTRAS
from support.modules import FOLDERS, OPTIONAL, ROOT, modules_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
PACKAGE = ROOT / "src" / "dataprep"

# The user's packages: a plain install brings all of them.
ORDINARY = {
    "array-record", "datasets", "jax", "multiprocess", "numpy", "tokenizers", "tqdm", "typer",
}  # fmt: skip


def files_of_the_tree() -> set[str]:
    """Every file of the package, as a path in the wheel: dataprep/cli/main.py …"""
    own = {f"dataprep/{path.name}" for path in PACKAGE.iterdir() if path.is_file()}
    return own | {
        f"dataprep/{path.relative_to(ROOT).as_posix()}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }


def python(code: str, *args: str, cwd: Path, flags: tuple[str, ...] = ()) -> str:
    command = [sys.executable, *flags, "-c", code, *args]
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- pyproject.toml -----------------------------------------------------------------------------


def test_the_four_folders_are_linked_into_the_package() -> None:
    links = {path.name: path for path in PACKAGE.iterdir() if path.is_symlink()}
    assert set(links) == set(FOLDERS)
    for name, link in links.items():
        assert link.resolve() == ROOT / name
        assert not link.readlink().is_absolute()


def test_every_folder_with_modules_is_a_regular_package() -> None:
    for module in (module for folder in FOLDERS for module in ROOT.glob(f"{folder}/**/*.py")):
        assert (module.parent / "__init__.py").is_file(), module


def test_the_version_is_that_of_the_distribution() -> None:
    assert dataprep.__version__ == version("dataprep-jax")


# Rooms whose door, the docstring of __init__.py, draws what is inside.
ROOMS = (
    "pipeline/encoders",
    "pipeline/encoders/vqgan",
    "pipeline/engine",
    "pipeline/engine/proof",
    "pipeline/media",
)


@pytest.mark.parametrize("room", ROOMS)
def test_the_door_of_a_room_has_a_line_for_every_file_in_it(room: str) -> None:
    folder = ROOT / room
    inside = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    inside |= {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    drawn = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert drawn
    lines = {line.split()[0] for line in drawn.splitlines() if line.startswith("    ")}
    assert inside - lines == set()


def test_package_data_names_listed_packages_and_files_that_exist() -> None:
    for package, patterns in SETUPTOOLS["package-data"].items():
        folder = ROOT / "src" / package.replace(".", "/")
        assert (folder / "__init__.py").is_file()
        for pattern in patterns:
            assert list(folder.glob(pattern)), (package, pattern)


def names_of(requirements: Iterable[str]) -> set[str]:
    return {Requirement(text).name.lower().replace("_", "-") for text in requirements}


def extras() -> dict[str, list[str]]:
    found: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
    return found


def test_a_plain_install_brings_the_packages_that_the_user_chose() -> None:
    requirements = PROJECT["project"]["dependencies"]
    assert names_of(requirements) >= ORDINARY
    # A package that is always there belongs in no extra.
    for name, extra in extras().items():
        assert not names_of(extra) & names_of(requirements), name


def test_every_package_that_the_code_imports_is_declared() -> None:
    declared = names_of(PROJECT["project"]["dependencies"])
    for name, extra in extras().items():
        declared |= names_of(extra) if name != "dev" else set()
    owners = packages_distributions()
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        for name in imported_names(path) - sys.stdlib_module_names - {"dataprep"}:
            assert names_of(owners.get(name, [name])) & declared, (path, name)


def test_what_the_tests_install_includes_every_extra_but_the_largest() -> None:
    (itself,) = [
        wanted for text in extras()["dev"] if (wanted := Requirement(text)).name == "dataprep-jax"
    ]
    assert itself.extras == set(extras()) - {"dev", "torch", "tfds"}


def test_messages_name_the_very_packages_of_an_extra() -> None:
    assert {name: set(names) for name, names in EXTRAS.items()} == {
        name: names_of(extras()[name]) for name in EXTRAS
    }
    assert {find_encoder(name).extra for name in BUILT_IN} <= set(EXTRAS)
    sources = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert not [p for p in sources if "dataprep-jax[" in p.read_text("utf-8")]  # on no index


# --- the wheel ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since a build leaves folders in the tree that it is run in."""
    needed = "setuptools>=77, which the dev extra names: pip install -e '.[dev]'"
    assert int(version("setuptools").split(".")[0]) >= 77, needed
    copy = tmp_path_factory.mktemp("copy")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    rest = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(PACKAGE.parent, copy / "src", symlinks=True, ignore=rest)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", "dist", "."]
    done = subprocess.run([*pip, *options], cwd=copy, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (copy / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to import from that holds the wheel's files and nothing else."""
    target = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def in_wheel(code: str, installed: Path, cwd: Path) -> str:
    """Run `code` where dataprep is the wheel's alone.

    -S leaves out the .pth file of an editable install, which would lend what the wheel lacks.
    """
    paths = [str(installed), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return python(f"import sys; sys.path += {paths!r}\n{code}", cwd=cwd, flags=("-I", "-S"))


def test_the_wheel_holds_every_file_of_the_tree_and_no_other_top_level(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    metadata = {n for n in names if PurePosixPath(n).parts[0].endswith(".dist-info")}
    assert names - metadata == {*files_of_the_tree(), "dataprep_jax.py"}
    assert any(name.endswith("/LICENSE") for name in metadata)


def test_the_nouns_and_the_sample_come_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = """
import json
import dataprep.pipeline.types as types
from dataprep.pipeline.sample import sample_path
first = sample_path("text.jsonl").read_text(encoding="utf-8").split("\\n")[0]
print(json.dumps([types.__file__, str(sample_path("tokenizer.json")), json.loads(first)["text"]]))
"""
    module, tokenizer, text = json.loads(in_wheel(code, installed, tmp_path))
    assert Path(module).is_relative_to(installed)
    assert Path(tokenizer).is_relative_to(installed)
    assert text


def test_every_module_of_the_wheel_can_be_imported(installed: Path, tmp_path: Path) -> None:
    modules = [name for folder in FOLDERS for name in modules_of(folder)]
    in_wheel(IMPORT_ALL.format(modules=modules, optional=OPTIONAL), installed, tmp_path)


def test_the_command_of_the_wheel_shows_its_help(installed: Path, tmp_path: Path) -> None:
    code = """
from importlib.metadata import distribution
sys.argv = ["dataprep", "--help"]
(script,) = distribution("dataprep-jax").entry_points.select(group="console_scripts")
try:
    script.load()()
except SystemExit as end:
    assert not end.code, end.code
"""
    assert "tokenize" in in_wheel(code, installed, tmp_path)


def test_the_console_script_shows_its_help(tmp_path: Path) -> None:
    script = Path(sysconfig.get_path("scripts")) / "dataprep"
    done = subprocess.run([script, "--help"], cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert "tokenize" in done.stdout


# --- walls --------------------------------------------------------------------------------------

IMPORT_ALL = """
import importlib
for name in {modules!r}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in {optional!r}:
            raise
"""


def imported_by(folder: str, cwd: Path, setup: str = "") -> set[str]:
    """Top-level modules present after the import of everything in dataprep.FOLDER."""
    modules = list(modules_of(folder))
    load = IMPORT_ALL.format(modules=modules, optional=OPTIONAL)
    names = python(f"import sys\n{setup}\n{load}\nprint(*sys.modules)", cwd=cwd).split()
    assert modules[0] in names  # the folder itself needs nothing optional
    return {name.split(".")[0] for name in names}


def test_the_loaders_import_nothing_of_the_offline_stack(tmp_path: Path) -> None:
    imported = imported_by("loaders", tmp_path)
    assert not imported & {"datasets", "tokenizers", "typer", "fastokens"}


def test_the_loaders_import_jax_and_numba_only_when_they_are_used(tmp_path: Path) -> None:
    names = python("import sys, dataprep.loaders\nprint(*sys.modules)", cwd=tmp_path).split()
    assert not set(names) & {"jax", "jaxlib", "numba", "llvmlite", "scipy"}


def test_the_pipeline_imports_no_jax(tmp_path: Path) -> None:
    assert not imported_by("pipeline", tmp_path) & {"jax", "jaxlib"}


def imported_names(path: Path) -> set[str]:
    """Top-level names that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


def python_files() -> list[Path]:
    modules = [path for f in (*FOLDERS, "tests", "examples") for path in (ROOT / f).rglob("*.py")]
    scripts = [path for path in (ROOT / "scripts").rglob("*") if path.is_file()]
    return modules + [
        path
        for path in scripts
        if path.suffix == ".py" or path.read_bytes().split(b"\n")[0].endswith(b"python3")
    ]


def test_nothing_imports_a_folder_by_its_bare_name() -> None:
    for path in python_files():
        assert not imported_names(path) & set(FOLDERS), path


# --- the sample ---------------------------------------------------------------------------------


def test_make_sample_gives_the_committed_bytes(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "make_sample"
    subprocess.run([sys.executable, script, "--out", tmp_path], check=True, capture_output=True)
    made = sorted(path.name for path in tmp_path.iterdir())
    committed = ROOT / "pipeline" / "sample"
    assert made == sorted(path.name for path in committed.glob("*.json*"))
    same, _, _ = filecmp.cmpfiles(tmp_path, committed, made, shallow=False)
    assert same == made
