"""How the conversations of one input become documents."""

from __future__ import annotations

from dataclasses import dataclass

from dataprep.configs.chat import ChatConfig
from dataprep.pipeline.documents.chat.forms import BESIDE, FoundForm
from dataprep.pipeline.documents.chat.templates import ChatTemplates
from dataprep.pipeline.engine import TokenizerFiles
from dataprep.pipeline.sources import Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRules:
    config: ChatConfig
    templates: ChatTemplates
    found: FoundForm
    files: TokenizerFiles
    drop_nulls: bool  # of tables: nulls stand for keys that other rows have

    @property
    def keys(self) -> Keys:
        """Return the keys of a record that are read."""
        maybe = {*self.found.maybe, self.config.tools, *BESIDE} - {*self.found.keys}
        return Keys(needed=frozenset(self.found.keys), maybe=frozenset(maybe), nested=True)
