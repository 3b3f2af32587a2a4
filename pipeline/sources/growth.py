"""Bound what stored bytes may grow to when they are decompressed or decoded.

stored 1,000 bytes    may grow to 64 MB: small files may be as compressible as they like
stored 1 MB           may grow to 200 MB (--max-ratio 200)
"""

from __future__ import annotations

from dataclasses import dataclass

from dataprep.pipeline.errors import InputError

FREE_BYTES = 64 << 20  # may be as compressible as they like


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What the stored bytes of one place may grow to."""

    place: str  # for messages: a file, or a part of one
    stored: int
    max_ratio: int

    @property
    def most(self) -> int:
        return max(FREE_BYTES, self.stored * self.max_ratio)

    def check(self, grown: float) -> None:
        """Raise an InputError if they grow to more than they may."""
        if grown > self.most:
            raise InputError(
                f"{self.place} grows from {self.stored:,} to more than {int(grown):,} bytes, "
                f"by more than {self.max_ratio} times; if that is right, raise --max-ratio"
            )
