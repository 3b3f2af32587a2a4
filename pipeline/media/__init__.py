"""Find, read and decode media: folders, tars and tables of pictures, videos and sounds.

Finding them:

    endings     cats/tom.jpg is a picture, and cats/tom.txt beside it is its text
    listing     a folder or a tar -> entries: cats/tom.jpg of 48,211 bytes, its .txt, its .json
    holders     a folder of files, a tar, a table: where the bytes are, what entries are called
    tables      a table -> whether its column holds bytes, or the paths of files
    find        "photos/" -> sources, each with its entries and a fingerprint
    changed     sources -> the one that is not what it was when it was found
    singles     sources -> their files, tars and tables one by one, to tell what is new

Reading them:

    values      a value of the column -> its bytes: binary, base64, a path, {bytes, path}, a list
    read        a piece of a source -> items: where the bytes are, the columns that go with them

Decoding them:

    packages    Pillow, av, soundfile and soxr, each imported when it is first needed
    whole       a file -> whether it has all the bytes that its headers state
    pictures    a picture of 640x480 -> u8[256, 256, 3], scaled and cropped as LWM does it
    augment     the same, mirrored, cropped elsewhere, in other colours: one variant of several
    sampling    --fps 2 -> the frames at 0, 0.5, 1 … seconds; --frames 4 -> 0, 6, 12 and 19 of 20
    animation   a GIF, WebP or TIFF -> its frames or pages
    video       an MP4, Matroska, AVI or MPEG -> its frames
    sound       a sound of 44,100 samples a second -> f32[n], mono, at 16,000 a second
    decode      an item -> Decoded: frames u8[256, 256, 3] or a waveform f32[n], and its columns

Other rooms call `find_media`, `read_items`, and `decode_item` or `decode_ahead`.
"""

from dataprep.pipeline.media.changed import changed_media
from dataprep.pipeline.media.decode import (
    Decoded,
    PictureRules,
    SoundRules,
    Stream,
    decode_ahead,
    decode_item,
)
from dataprep.pipeline.media.find import (
    FoundMedia,
    NamesBeside,
    files_read,
    find_media,
    folders_named,
    places_read,
)
from dataprep.pipeline.media.holders import is_listed
from dataprep.pipeline.media.listing import Entry
from dataprep.pipeline.media.pictures import Framing
from dataprep.pipeline.media.read import Item, read_items
from dataprep.pipeline.media.singles import only, singles_of

__all__ = [
    "Decoded",
    "Entry",
    "FoundMedia",
    "Framing",
    "Item",
    "NamesBeside",
    "PictureRules",
    "SoundRules",
    "Stream",
    "changed_media",
    "decode_ahead",
    "decode_item",
    "files_read",
    "find_media",
    "folders_named",
    "is_listed",
    "only",
    "places_read",
    "read_items",
    "singles_of",
]
