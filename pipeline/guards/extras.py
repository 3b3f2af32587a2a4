"""What to install for what few need: packages by their names, wherever dataprep itself came from.

pictures ─► extra vision ─► pip install pillow
"""

from __future__ import annotations

# The extras of pyproject.toml whose packages errors ask for, without versions.
EXTRAS = {
    "sentencepiece": ("sentencepiece",),
    "vision": ("pillow",),
    "video": ("av",),
    "audio": ("soundfile", "soxr"),
    "vqgan": ("pillow", "safetensors"),
}


def how_to_install(extra: str) -> str:
    """Return the command that brings what an extra names; an extra of others is only named.

    >>> how_to_install("audio"), how_to_install("")
    ('pip install soundfile soxr', 'install them')
    """
    if not extra:
        return "install them"
    return f"pip install {' '.join(EXTRAS.get(extra, (extra,)))}"
