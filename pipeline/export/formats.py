"""EXPORTS: the formats by name. A new one is a file, a line here, and its name in the config."""

from __future__ import annotations

from collections.abc import Mapping

from dataprep.pipeline.export.bridge import BRIDGE
from dataprep.pipeline.export.datatrove import DATATROVE
from dataprep.pipeline.export.format import Export
from dataprep.pipeline.export.hf import HF
from dataprep.pipeline.export.maxtext import MAXTEXT
from dataprep.pipeline.export.mds import MDS
from dataprep.pipeline.export.megatron import MEGATRON
from dataprep.pipeline.export.nanogpt import NANOGPT
from dataprep.pipeline.export.olmo import OLMO
from dataprep.pipeline.export.xlstm import XLSTM

EXPORTS: Mapping[str, Export] = {
    export.name: export
    for export in (MAXTEXT, XLSTM, MEGATRON, BRIDGE, HF, OLMO, DATATROVE, MDS, NANOGPT)
}
