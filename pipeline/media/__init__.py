"""Raw media in: folders, tars and tables of pictures, videos and sounds.

    find_media    what the user names   -> sources, with a list of what a folder or tar holds
    is_listed     a source              -> whether it is such a list, and not a table
    read_items    a piece of a source   -> items: where the media are, the columns beside them
    decode_item   an item               -> frames u8[size, size, 3], or a waveform f32[samples]
    decode_ahead  items                 -> the same for each in order, by threads if asked to

Pillow, av, soundfile and soxr are imported where they are needed, not before.
"""

from dataprep.pipeline.media.decode import (
    Decoded,
    PictureRules,
    SoundRules,
    Stream,
    decode_ahead,
    decode_item,
)
from dataprep.pipeline.media.find import Found, find_media, is_listed
from dataprep.pipeline.media.listing import Entry
from dataprep.pipeline.media.read import Item, read_items

__all__ = [
    "Decoded",
    "Entry",
    "Found",
    "Item",
    "PictureRules",
    "SoundRules",
    "Stream",
    "decode_ahead",
    "decode_item",
    "find_media",
    "is_listed",
    "read_items",
]
