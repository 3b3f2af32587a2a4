"""Read the members of an uncompressed tar, in the order in which they are stored.

    byte 0      header of a.txt      TarInfo.offset, with the headers of a long name before it
    byte 512    content of a.txt     TarInfo.offset_data
    byte 1024   header of a.json …   contents are padded to blocks of 512 bytes
    …           zeros                the end mark: without it the file may have been cut off

Reads local files and URLs, with one member in memory at a time. Checks what `tarfile` does not: it
takes a cut-off file, and a damaged header after the first member, for the end of the tar.
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
_BUFFER_BYTES = 1 << 15  # small contents are read with their headers, large ones skipped
_CHECK_BYTES = 1 << 20
_INSTEAD = {
    **dict.fromkeys((tarfile.LNKTYPE, tarfile.SYMTYPE), "a link"),
    **dict.fromkeys((tarfile.CHRTYPE, tarfile.BLKTYPE), "a device"),
    tarfile.FIFOTYPE: "a FIFO",
    tarfile.DIRTYPE: "a folder",
}
PACK_AGAIN = "pack it again: tar -h --hard-dereference"
# Refused in a global header: a reader that starts in the middle of the tar would not see them.
_OF_ONE_MEMBER = {"path", "size"}


@contextmanager
def open_tar(path: str) -> Iterator[Any]:
    """Open a tar as a seekable binary file, for `tar_members` and `read_content`."""
    raw = open_file(path)
    # Files behind URLs have their own buffers.
    with closing(raw if is_url(path) else io.BufferedReader(raw, _BUFFER_BYTES)) as file:
        yield file


def tar_members(file: Any, path: str, start: int = 0) -> Iterator[tarfile.TarInfo]:
    """Yield members of any type from the header at byte `start` on; the caller may seek between."""
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
                            "a global header gives all members the same path or size"
                        )
                    yield member
                    cast(Any, tar).members.clear()  # or it would keep all of them
            if end + _BLOCK > size:  # tarfile takes that for the end
                raise tarfile.ReadError("it has no end mark, so it may have been cut off")
        except (tarfile.TarError, ValueError, OverflowError) as error:  # from a damaged header
            raise broken_tar(path, str(error)) from None


def _check_member(member: tarfile.TarInfo, path: str, after: int, size: int) -> None:
    if member.issparse():
        raise InputError(
            f"{member.name} of {path} is a sparse file; pack the tar again without --sparse"
        )
    end = end_of(member)
    if end <= after:  # reading it would never end
        raise tarfile.ReadError(f"{member.name} has a size of {member.size} bytes")
    if end > size:
        raise tarfile.ReadError(f"it ends within {member.name}")


def end_of(member: tarfile.TarInfo) -> int:
    """Return where the next header begins. Links and folders may state a size, but have no data."""
    has_content = member.isreg() or member.type not in tarfile.SUPPORTED_TYPES
    size = member.size if has_content else 0
    return -(-(member.offset_data + size) // _BLOCK) * _BLOCK


def what_instead(member: tarfile.TarInfo) -> str:
    """Return what a member is that is not a file, and so has no content: a link, a device …"""
    other = f"of the unknown type {member.type.decode('latin-1')!r}"
    return "" if member.isreg() else _INSTEAD.get(member.type, other)


def check_end(file: Any, path: str, end: int) -> None:
    """Raise an InputError unless only zeros follow the last member, which ends at byte `end`."""
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
        f"{path} has more data at byte {place}, after its end mark; were tars joined into one file?"
        " keep each tar in its own file"
    )


def read_content(file: Any, path: str, start: int, size: int) -> bytes:
    chunks: list[bytes] = []
    with naming(path):
        file.seek(start)
        while size:
            chunk = file.read(size)
            if not chunk:
                raise broken_tar(
                    path,
                    f"it was cut off while it was read; a member lacks its last {_bytes(size)}",
                )
            chunks.append(chunk)
            size -= len(chunk)
    return b"".join(chunks)


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def check_name(name: str, place: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{name!a} in {place} is not UTF-8; rename it") from None


def broken_tar(path: str, cause: str) -> InputError:
    return InputError(f"cannot read {path} as tar: {cause}; copy or pack it again")
