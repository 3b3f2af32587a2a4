"""Texts that know where each of their characters came from, whatever a template does with them.

    '<user>hello<end>'[6:]   ─►   'hello' of message 0, content | '<end>' of the template
    'hello'.upper()          ─►   'HELLO' of message 0, content

A `TracedText` is a `str`: templates treat it as one. Its methods give texts again: of substrings
the origins are exact, of all else the origin is the message whose text went in, or MIXED if there
were several. What a template asks about a text (`in`, ==, length) is recorded on the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dataprep.pipeline.documents.chat.bounds import ITEM, spend
from dataprep.pipeline.documents.chat.origins import (
    Mark,
    Part,
    common_origin,
    cut_parts,
    strip_parts,
)
from dataprep.pipeline.documents.chat.tape import UNKNOWN, Tape
from dataprep.pipeline.documents.chat.traced import (
    Traced,
    asked,
    called,
    first_text,
    origins_in,
    parts_of,
    plain,
    varies,
)


class TracedText(Traced):
    __slots__ = ()

    def __str__(self) -> str:
        return self

    # --- joining ---------------------------------------------------------------------------

    def __add__(self, other: str) -> str:
        return joined((self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: str) -> str:
        return joined((other, self)) if isinstance(other, str) else NotImplemented

    def join(self, items: Iterable[str], /) -> str:
        found = list(items)
        for item in found:
            if not isinstance(item, str):
                raise TypeError(f"sequence item: expected str instance, {type(item)} found")
        return joined(between(found, self))

    # --- what a template asks --------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(asked(self, "bool({})", str.__len__(self) > 0))

    def __len__(self) -> int:
        return int(asked(self, "len({})", str.__len__(self)))

    def __hash__(self) -> int:
        if varies((self,)):
            self._tape.breaks("a text is a key")
        return str.__hash__(self)

    def __repr__(self) -> str:
        return of_whole(self, (), str.__repr__(self), "repr({})")

    def __iter__(self) -> Iterator[str]:
        for i in range(len(self)):
            yield self[i]

    # --- substrings ------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> str:
        try:
            taken = str.__getitem__(self, key)
        except IndexError:
            len(self)  # is what decides it
            raise
        if isinstance(key, slice):
            if (key.step or 1) != 1:
                return of_whole(self, (key.start, key.stop, key.step), taken, "{}[{}:{}:{}]")
            start, stop, _ = key.indices(str.__len__(self))
            source = called(self, "{}[{}:{}]", (key.start, key.stop))
        else:
            start = key.__index__() % str.__len__(self)
            stop, source = start + 1, called(self, "{}[{}]", (key,))
        return cut(self, start, max(stop, start), source)

    def strip(self, chars: str | None = None, /) -> str:
        return _lstrip(_rstrip(self, chars), chars)

    def lstrip(self, chars: str | None = None, /) -> str:
        return _lstrip(self, chars)

    def rstrip(self, chars: str | None = None, /) -> str:
        return _rstrip(self, chars)

    def removeprefix(self, prefix: str, /) -> str:
        if isinstance(prefix, TracedText):
            result = str.removeprefix(self, prefix)
            return of_whole(self, (prefix,), result, "{}.removeprefix({})")
        return self[str.__len__(prefix) :] if self.startswith(prefix) else self

    def removesuffix(self, suffix: str, /) -> str:
        if isinstance(suffix, TracedText):
            result = str.removesuffix(self, suffix)
            return of_whole(self, (suffix,), result, "{}.removesuffix({})")
        ends = str.__len__(suffix) > 0 and self.endswith(suffix)
        return self[: -str.__len__(suffix)] if ends else self

    def split(self, sep: str | None = None, maxsplit: Any = -1) -> list[str]:
        return _split(self, "split", sep, maxsplit)

    def rsplit(self, sep: str | None = None, maxsplit: Any = -1) -> list[str]:
        return _split(self, "rsplit", sep, maxsplit)

    def splitlines(self, keepends: bool = False) -> list[str]:
        lines = str.splitlines(self, keepends)
        starts, place = [], 0
        for whole in str.splitlines(self, True):
            starts.append(place)
            place += len(whole)
        return _listed(self, lines, starts, called(self, "{}.splitlines({})", (keepends,)))

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        return _partition(self, "partition", sep)

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        return _partition(self, "rpartition", sep)

    # --- the rest --------------------------------------------------------------------------

    def replace(self, old: str, new: str, count: Any = -1, /, **named: Any) -> str:
        count = named.pop("count", count)
        if not plain(old) or not plain(new).strip():  # blanks in a content are content
            result = str.replace(self, old, new, count, **named)
            return of_whole(self, (old, new, count), result, "{}.replace({}, {}, {})")
        if old not in self:
            return self
        return joined(between(self.split(old, count), new))

    def __mul__(self, count: Any) -> str:
        return of_whole(self, (count,), str.__mul__(self, count), "{} * {}")

    __rmul__ = __mul__

    def __mod__(self, values: Any) -> str:
        return of_any((self, values), str.__mod__(self, values))

    def __rmod__(self, pattern: str) -> str:
        return of_any((pattern, self), str.__mod__(str(pattern), str.__str__(self)))

    def __format__(self, spec: str) -> str:
        return of_any((self,), str.__format__(self, spec))

    def __getnewargs__(self) -> tuple[str]:
        return (plain(self),)


def make(tape: Tape, parts: Iterable[Part]) -> TracedText:
    kept = tuple(parts)
    spend(ITEM * len(kept))
    text = str.__new__(TracedText, "".join(part.value for part in kept))
    text._parts, text._tape = kept, tape
    return text


def joined(pieces: Iterable[str]) -> str:
    """Return the texts end to end; a plain `str` if none of them is a `TracedText`."""
    found = list(pieces)
    tape = next((piece._tape for piece in found if isinstance(piece, TracedText)), None)
    if tape is None:
        return "".join(found)
    parts = [part for piece in found for part in parts_of(piece)]
    at = tape.loops.at
    if at >= 0:
        parts = [part if part.owner >= 0 else part._replace(owner=at) for part in parts]
    return make(tape, parts)


def between(items: Iterable[str], separator: str) -> list[str]:
    return [piece for item in items for piece in (separator, item)][1:]


def cut(text: TracedText, start: int, stop: int, source: str) -> TracedText:
    """Return a substring; `source` is the tape's name for it."""
    return make(text._tape, cut_parts(text._parts, start, stop, source, text._tape))


def of_whole(text: TracedText, args: Sequence[Any], result: str, call: str) -> TracedText:
    """Return the result of a call that may have changed every character."""
    source = called(text, call, args)
    return _whole(text, result, origins_in((text, *args)), source)


def of_any(values: Sequence[Any], result: str) -> str:
    """Return the result of something that the tape does not know."""
    text = first_text(values)
    if text is None:
        return result
    text._tape.breaks("it does something with a text that is not recorded")
    return _whole(text, plain(result), origins_in(values), UNKNOWN)


def _whole(text: Traced, result: str, origins: set[Any], source: str) -> TracedText:
    marks = [part for part in text._parts if isinstance(part.origin, Mark)]
    return make(text._tape, [Part(result, common_origin(origins), source), *marks])


def _lstrip(text: str, chars: str | None) -> str:
    return _stripped(text, chars, "lstrip")


def _rstrip(text: str, chars: str | None) -> str:
    return _stripped(text, chars, "rstrip")


def _stripped(text: str, chars: str | None, method: str) -> str:
    if not isinstance(text, TracedText):
        return str(getattr(str, method)(text, chars))
    if isinstance(chars, TracedText):
        text._tape.breaks("a text says what to strip")
        chars = plain(chars)
    return make(text._tape, strip_parts(text._parts, chars, method, text._tape))


def _split(text: TracedText, method: str, sep: str | None, maxsplit: int) -> list[str]:
    found: list[str] = getattr(str, method)(text, sep, maxsplit)
    starts, place = [], 0
    for item in found:
        place = place if sep is not None else str.index(text, item, place)
        starts.append(place)
        place += len(item) + (0 if sep is None else str.__len__(sep))
    return _listed(text, found, starts, called(text, f"{{}}.{method}({{}}, {{}})", (sep, maxsplit)))


def _partition(text: TracedText, method: str, sep: str) -> tuple[str, str, str]:
    found: tuple[str, str, str] = getattr(str, method)(text, sep)
    starts = [0, len(found[0]), len(found[0]) + len(found[1])]
    source = called(text, f"{{}}.{method}({{}})", (sep,))
    a, b, c = _listed(text, list(found), starts, source)
    return a, b, c


def _listed(
    text: TracedText, found: Sequence[str], starts: Sequence[int], source: str
) -> list[str]:
    if source:
        text._tape.condition(f"len({source})", len(found))
    pairs = enumerate(zip(found, starts, strict=True))
    return [
        cut(text, start, start + len(item), source and text._tape.value(f"{source}[{i}]"))
        for i, (item, start) in pairs
    ]


def _changing(name: str) -> Callable[..., str]:
    def method(self: TracedText, *args: Any, **named: Any) -> str:
        result = getattr(str, name)(self, *args, **named)
        if named:
            return of_any((self, args, named), result)
        holes = ", ".join("{}" for _ in args)
        return of_whole(self, args, result, f"{{}}.{name}({holes})")

    return method


def _asking(name: str, call: str = "") -> Callable[..., Any]:
    def method(self: TracedText, *args: Any) -> Any:
        answer = getattr(str, name)(self, *args)
        if answer is NotImplemented:
            return answer
        holes = ", ".join("{}" for _ in args)
        return asked(self, call or f"{{}}.{name}({holes})", answer, args)

    return method


_CHANGING = (
    *("capitalize", "casefold", "lower", "swapcase", "title", "upper"),
    *("center", "expandtabs", "ljust", "rjust", "zfill"),
)
_ASKING = (
    *("startswith", "endswith", "count", "find", "index", "rfind", "rindex"),
    *("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower"),
    *("isnumeric", "isprintable", "isspace", "istitle", "isupper"),
)
_COMPARING = {"__eq__": "==", "__ne__": "!=", "__lt__": "<", "__le__": "<=", "__gt__": ">"}

for _name in _CHANGING:
    setattr(TracedText, _name, _changing(_name))
for _name in _ASKING:
    setattr(TracedText, _name, _asking(_name))
for _name, _sign in {**_COMPARING, "__ge__": ">="}.items():
    setattr(TracedText, _name, _asking(_name, f"({{}} {_sign} {{}})"))
TracedText.__contains__ = _asking("__contains__", "({1} in {0})")  # type: ignore[method-assign]


def _translate(self: TracedText, table: Any, /) -> str:
    return of_any((self,), str.translate(self, table))


TracedText.translate = _translate  # type: ignore[assignment,method-assign]


def has_length(text: TracedText, sign: str, number: int, answer: bool) -> bool:
    """Return the answer to a question about the length of a text, such as > 0."""
    return bool(asked(text, f"(len({{}}) {sign} {{}})", answer, (number,)))


def is_in(text: TracedText, container: str) -> bool:
    """Return whether a constant holds the text."""
    return bool(asked(text, "({0} in {1})", plain(text) in container, (container,)))
