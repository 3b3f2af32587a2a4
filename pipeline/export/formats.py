"""EXPORTS: the formats by name. A new one is a file and a line."""

from __future__ import annotations

from collections.abc import Mapping

from dataprep.pipeline.export.format import Export
from dataprep.pipeline.export.megatron import MEGATRON

EXPORTS: Mapping[str, Export] = {export.name: export for export in (MEGATRON,)}
