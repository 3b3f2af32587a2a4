"""What to install for what few need: packages by their names, wherever dataprep itself came from.

pictures ─► extra vision ─► pip install pillow
"""

from __future__ import annotations

# The extras of pyproject.toml whose packages errors ask for, without versions.
EXTRAS = {
    "ray": ("ray",),
    "sentencepiece": ("sentencepiece",),
    "vision": ("pillow",),
    "video": ("av",),
    "audio": ("soundfile", "soxr"),
    "vqgan": ("pillow", "safetensors"),
}


def how_to_install(extra: str) -> str:
    """Return the command that brings what an extra of dataprep names; of others none is known.

    >>> how_to_install("audio"), how_to_install("of-a-plugin"), how_to_install("")
    ('pip install soundfile soxr', 'install them', 'install them')
    """
    return f"pip install {' '.join(EXTRAS[extra])}" if extra in EXTRAS else "install them"
