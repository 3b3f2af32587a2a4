"""What of a conversation is hashed, so that equal ones are known: `documents.keys`.

Messages, tools and the record's own variables count as they are given to a template, whatever the
form of the record, and the codes of media as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from dataprep.pipeline.documents.chat.forms import read_kwargs, read_messages, read_tools
from dataprep.pipeline.documents.chat.media import take_media
from dataprep.pipeline.documents.chat.rules import ChatRules
from dataprep.pipeline.documents.codes import integers_of
from dataprep.pipeline.modalities.block import Block
from dataprep.pipeline.storage.keys import part_of_json, part_of_numbers
from dataprep.pipeline.types import Record


def parts_of_conversation(record: Record, rules: ChatRules, blocks: Mapping[str, Block]) -> bytes:
    """Return what is hashed of a record that has a document."""
    given = read_messages(record, rules.found, drop_nulls=rules.drop_nulls)
    messages, media = take_media(given)
    tools = read_tools(record, rules.config.tools, drop_nulls=rules.drop_nulls)
    codes = []
    for medium in media:
        block = blocks[medium.modality]
        found = integers_of(medium.codes, block.raw_dtype, may_nest=block.may_nest)
        codes.append(part_of_numbers(medium.modality, block.flatten(found)))
    return b"".join([part_of_json([messages, tools, read_kwargs(record)]), *codes])
