"""Members of an uncompressed tar, in the order in which they lie there.

    byte 0      header of a.txt      TarInfo.offset, with the headers of a long name before it
    byte 512    content of a.txt     TarInfo.offset_data
    byte 1024   header of a.json …   contents are padded to blocks of 512 bytes
    …           zeros                the end mark: without it the file may have been cut off

Local files and URLs; one member is in memory at a time. `tarfile` itself takes a cut-off file and,
after the first member, a damaged header for the end.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, cast

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.stream import is_url, naming, open_file

PACKED_ENDINGS = (".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2")

_BLOCK = 512  # what a tar is made of
_BUFFER_BYTES = 1 << 15  # small contents are read with their headers, large ones passed over
_CHECK_BYTES = 1 << 20
# In a header for all members, a reader that starts in the middle would not know of these.
_OF_ONE_MEMBER = {"path", "size"}


@contextmanager
def open_tar(path: str) -> Iterator[Any]:
    """A binary file that can seek, for `tar_members` and `read_content`."""
    raw = open_file(path)
    # Files behind URLs have buffers of their own.
    with closing(raw if is_url(path) else io.BufferedReader(raw, _BUFFER_BYTES)) as file:
        yield file


def tar_members(file: Any, path: str, start: int = 0) -> Iterator[tarfile.TarInfo]:
    """Members of any type from the header at byte `start` on; the file may be moved meanwhile."""
    with naming(path):
        size = file.seek(0, io.SEEK_END)
        file.seek(start)
        end = start
        try:
            with tarfile.open(fileobj=file, mode="r:", encoding="utf-8") as tar:
                while (member := tar.next()) is not None:
                    _check_member(member, path, end, size)
                    end = end_of(member)
                    if _OF_ONE_MEMBER & tar.pax_headers.keys():
                        raise tarfile.ReadError(
                            "a global header gives all members one path or size"
                        )
                    yield member
                    cast(Any, tar).members.clear()  # or it would keep all of them
            if end + _BLOCK > size:  # tarfile itself takes that for the end
                raise tarfile.ReadError("it has no end mark, so it may have been cut off")
        except (tarfile.TarError, ValueError, OverflowError) as error:  # by what a header says
            raise broken_tar(path, str(error)) from None


def _check_member(member: tarfile.TarInfo, path: str, after: int, size: int) -> None:
    if member.issparse():
        raise InputError(f"{member.name} of {path} is a sparse file; pack it again without")
    end = end_of(member)
    if end <= after:  # it would be read for ever
        raise tarfile.ReadError(f"{member.name} has a size of {member.size} bytes")
    if end > size:
        raise tarfile.ReadError(f"it ends within {member.name}")


def end_of(member: tarfile.TarInfo) -> int:
    """Where the next header begins. Links and folders may state a size, but have no content."""
    has_content = member.isreg() or member.type not in tarfile.SUPPORTED_TYPES
    size = member.size if has_content else 0
    return -(-(member.offset_data + size) // _BLOCK) * _BLOCK


def check_end(file: Any, path: str, end: int) -> None:
    """InputError unless nothing but zeros follows the last member, which ends at byte `end`."""
    place = end
    with naming(path):
        file.seek(end)
        while chunk := file.read(_CHECK_BYTES):
            zeros = len(chunk) - len(chunk.lstrip(b"\0"))
            if zeros < len(chunk):
                place += zeros
                break
            place += zeros
        else:
            return
    if place < end + _BLOCK:
        raise broken_tar(path, f"the header at byte {end} is damaged")
    raise InputError(
        f"{path} goes on at byte {place}, after its end mark; were tars joined into one file?"
        " keep each in a file of its own"
    )


def read_content(file: Any, path: str, start: int, size: int) -> bytes:
    chunks: list[bytes] = []
    with naming(path):
        file.seek(start)
        while size:
            chunk = file.read(size)
            if not chunk:
                raise broken_tar(
                    path, f"it was cut off meanwhile, {size} bytes before a member's end"
                )
            chunks.append(chunk)
            size -= len(chunk)
    return b"".join(chunks)


def check_name(name: str, place: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{name!a} in {place} is not UTF-8; rename it") from None


def broken_tar(path: str, cause: str) -> InputError:
    return InputError(f"cannot read {path} as tar: {cause}; copy or pack it again")
