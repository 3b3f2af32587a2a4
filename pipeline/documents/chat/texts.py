"""Texts that know where each of their characters came from, whatever a template does with them.

    Text  '<user>hello<end>'    parts  '<user>' of the template | 'hello' of message 0, content | …

A `Text` is a `str`, so a template treats it as one. Its methods give texts again: of substrings the
origins are exact, of all else the origin is the message whose text went in, or MIXED if there were
several. What a template asks about a text (`in`, ==, length) is recorded on the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dataprep.pipeline.documents.chat.origins import (
    UNKNOWN,
    Mark,
    Part,
    Parts,
    common_origin,
    cut_parts,
    strip_parts,
)
from dataprep.pipeline.documents.chat.tape import Tape


class Text(str):
    __slots__ = ("_parts", "_tape")
    _parts: Parts
    _tape: Tape

    def __str__(self) -> str:
        return self

    # --- joining ---------------------------------------------------------------------------

    def __add__(self, other: str) -> str:
        return joined((self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: str) -> str:
        return joined((other, self)) if isinstance(other, str) else NotImplemented

    def join(self, items: Iterable[str], /) -> str:
        found = list(items)
        between = [piece for item in found for piece in (self, item)][1:]
        for item in found:
            if not isinstance(item, str):
                raise TypeError(f"sequence item: expected str instance, {type(item)} found")
        return joined(between)

    # --- what a template asks --------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(_asked(self, "bool({})", str.__len__(self) > 0))

    def __len__(self) -> int:
        return int(_asked(self, "len({})", str.__len__(self)))

    def __hash__(self) -> int:
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
            source = _called(self, "{}[{}:{}]", (key.start, key.stop))
        else:
            start = key.__index__() % str.__len__(self)
            stop, source = start + 1, _called(self, "{}[{}]", (key,))
        return cut(self, start, max(stop, start), source)

    def strip(self, chars: str | None = None, /) -> str:
        return _lstrip(_rstrip(self, chars), chars)

    def lstrip(self, chars: str | None = None, /) -> str:
        return _lstrip(self, chars)

    def rstrip(self, chars: str | None = None, /) -> str:
        return _rstrip(self, chars)

    def removeprefix(self, prefix: str, /) -> str:
        if isinstance(prefix, Text):
            result = str.removeprefix(self, prefix)
            return of_whole(self, (prefix,), result, "{}.removeprefix({})")
        return self[str.__len__(prefix) :] if self.startswith(prefix) else self

    def removesuffix(self, suffix: str, /) -> str:
        if isinstance(suffix, Text):
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
        return _listed(self, lines, starts, _called(self, "{}.splitlines({})", (keepends,)))

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        return _partition(self, "partition", sep)

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        return _partition(self, "rpartition", sep)

    # --- the rest --------------------------------------------------------------------------

    def replace(self, old: str, new: str, count: Any = -1, /, **named: Any) -> str:
        count = named.pop("count", count)
        replaced = str.replace(self, old, new, count, **named)
        source = _called(self, "{}.replace({}, {}, {})", (old, new, count))
        given = (*self._parts, *parts_of(new))
        origins = {part.origin for part in given if part.value or part.source}
        if len(origins) == 1 or not plain(old):
            return _whole(self, replaced, origins, source)
        self._tape.breaks("a part of a text of several is replaced")
        pieces: list[str] = []
        place = 0
        while count != 0:
            found = str.find(self, old, place)
            if found < 0:
                break
            pieces += [cut(self, place, found, UNKNOWN), new]
            place = found + str.__len__(old)
            count -= 1
        return joined([*pieces, cut(self, place, str.__len__(self), UNKNOWN)])

    def __mul__(self, count: Any) -> str:
        return of_whole(self, (count,), str.__mul__(self, count), "{} * {}")

    __rmul__ = __mul__

    def __mod__(self, values: Any) -> str:
        return of_any((self, values), str.__mod__(self, values))

    def __rmod__(self, pattern: str) -> str:
        return of_any((pattern, self), str.__mod__(str(pattern), str.__str__(self)))

    def __format__(self, spec: str) -> str:
        return of_any((self,), str.__format__(self, spec))

    def format(self, *args: Any, **named: Any) -> str:
        return of_any((self, args, named), str.format(self, *args, **named))

    def format_map(self, mapping: Any, /) -> str:
        return of_any((self, mapping), str.format_map(self, mapping))

    def __getnewargs__(self) -> tuple[str]:
        return (plain(self),)


def plain(text: str) -> str:
    """Return a `str` that is no `Text`, without a question that the tape would record."""
    return "".join(part.value for part in text._parts) if isinstance(text, Text) else text


def make(tape: Tape, parts: Iterable[Part]) -> Text:
    kept = tuple(parts)
    text = str.__new__(Text, "".join(part.value for part in kept))
    text._parts, text._tape = kept, tape
    return text


def parts_of(text: str) -> Parts:
    return text._parts if isinstance(text, Text) else ((Part(text),) if text else ())


def joined(pieces: Iterable[str]) -> str:
    """Return the texts end to end; a plain `str` if none of them is a `Text`."""
    found = list(pieces)
    tape = next((piece._tape for piece in found if isinstance(piece, Text)), None)
    if tape is None:
        return "".join(found)
    return make(tape, [part for piece in found for part in parts_of(piece)])


def cut(text: Text, start: int, stop: int, source: str) -> Text:
    """Return a substring; `source` is the tape's name for it."""
    return make(text._tape, cut_parts(text._parts, start, stop, source, text._tape))


def of_whole(text: Text, args: Sequence[Any], result: str, call: str) -> Text:
    """Return the result of a call that may have changed every character."""
    source = _called(text, call, args)
    return _whole(text, result, _origins((text, *args)), source)


def of_any(values: Sequence[Any], result: str) -> str:
    """Return the result of something that the tape does not know."""
    text = first_text(values)
    if text is None:
        return result
    text._tape.breaks("it does something with a text that is not recorded")
    return _whole(text, plain(result), _origins(values), UNKNOWN)


def source_of(text: str, tape: Tape) -> str:
    """Return the tape's expression for a text."""
    parts = [part for part in parts_of(text) if not isinstance(part.origin, Mark)]
    names = [part.source or tape.constant(part.value) for part in parts]
    if UNKNOWN in names:
        tape.breaks("a part of a text of several is used")
        return tape.constant("")
    if not names:
        return tape.constant("")
    return names[0] if len(names) == 1 else tape.value("+".join(names))


def _called(text: Text, call: str, args: Sequence[Any]) -> str:
    """Return the variable for the result of a call; "" if that is a constant."""
    if not _varies((text, *args)):
        return ""
    return text._tape.value(_expression(text, call, args))


def _varies(values: Iterable[Any]) -> bool:
    """Return whether a text among the values may be another one for another conversation."""
    texts = (value for value in values if isinstance(value, Text))
    return any(part.source for text in texts for part in text._parts)


def _expression(text: Text, call: str, args: Sequence[Any]) -> str:
    tape = text._tape
    names = [source_of(a, tape) if isinstance(a, Text) else tape.constant(a) for a in args]
    return call.format(source_of(text, tape), *names)


def _asked(text: Text, call: str, answer: Any, args: Sequence[Any] = ()) -> Any:
    if _varies((text, *args)):
        text._tape.condition(_expression(text, call, args), answer)
    return answer


def _whole(text: Text, result: str, origins: set[Any], source: str) -> Text:
    marks = [part for part in text._parts if isinstance(part.origin, Mark)]
    return make(text._tape, [Part(result, common_origin(origins), source), *marks])


def _origins(values: Iterable[Any]) -> set[Any]:
    found: set[Any] = set()
    for value in values:
        if isinstance(value, str):
            found |= {part.origin for part in parts_of(value)}
        elif isinstance(value, dict):
            found |= _origins((*value.keys(), *value.values()))
        elif isinstance(value, list | tuple):
            found |= _origins(value)
    return found


def first_text(values: Iterable[Any]) -> Text | None:
    for value in values:
        inner = (*value.keys(), *value.values()) if isinstance(value, dict) else value
        found = (
            value
            if isinstance(value, Text)
            else first_text(inner)
            if isinstance(inner, list | tuple)
            else None
        )
        if found is not None:
            return found
    return None


def _lstrip(text: str, chars: str | None) -> str:
    return _stripped(text, chars, "lstrip")


def _rstrip(text: str, chars: str | None) -> str:
    return _stripped(text, chars, "rstrip")


def _stripped(text: str, chars: str | None, method: str) -> str:
    if not isinstance(text, Text):
        return str(getattr(str, method)(text, chars))
    if isinstance(chars, Text):
        text._tape.breaks("a text says what to strip")
        chars = plain(chars)
    return make(text._tape, strip_parts(text._parts, chars, method, text._tape))


def _split(text: Text, method: str, sep: str | None, maxsplit: int) -> list[str]:
    found: list[str] = getattr(str, method)(text, sep, maxsplit)
    starts, place = [], 0
    for item in found:
        place = place if sep is not None else str.index(text, item, place)
        starts.append(place)
        place += len(item) + (0 if sep is None else str.__len__(sep))
    return _listed(
        text, found, starts, _called(text, f"{{}}.{method}({{}}, {{}})", (sep, maxsplit))
    )


def _partition(text: Text, method: str, sep: str) -> tuple[str, str, str]:
    found: tuple[str, str, str] = getattr(str, method)(text, sep)
    starts = [0, len(found[0]), len(found[0]) + len(found[1])]
    source = _called(text, f"{{}}.{method}({{}})", (sep,))
    a, b, c = _listed(text, list(found), starts, source)
    return a, b, c


def _listed(text: Text, found: Sequence[str], starts: Sequence[int], source: str) -> list[str]:
    if source:
        text._tape.condition(f"len({source})", len(found))
    pairs = enumerate(zip(found, starts, strict=True))
    return [
        cut(text, start, start + len(item), source and text._tape.value(f"{source}[{i}]"))
        for i, (item, start) in pairs
    ]


def _changing(name: str) -> Callable[..., str]:
    def method(self: Text, *args: Any, **named: Any) -> str:
        result = getattr(str, name)(self, *args, **named)
        if named:
            return of_any((self, args, named), result)
        holes = ", ".join("{}" for _ in args)
        return of_whole(self, args, result, f"{{}}.{name}({holes})")

    return method


def _asking(name: str, call: str = "") -> Callable[..., Any]:
    def method(self: Text, *args: Any) -> Any:
        answer = getattr(str, name)(self, *args)
        if answer is NotImplemented:
            return answer
        holes = ", ".join("{}" for _ in args)
        return _asked(self, call or f"{{}}.{name}({holes})", answer, args)

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
    setattr(Text, _name, _changing(_name))
for _name in _ASKING:
    setattr(Text, _name, _asking(_name))
for _name, _sign in {**_COMPARING, "__ge__": ">="}.items():
    setattr(Text, _name, _asking(_name, f"({{}} {_sign} {{}})"))
Text.__contains__ = _asking("__contains__", "({1} in {0})")  # type: ignore[method-assign]


def _encode(self: Text, *args: Any, **named: Any) -> bytes:
    self._tape.breaks("a text is encoded")
    return str.encode(self, *args, **named)


def _translate(self: Text, table: Any, /) -> str:
    return of_any((self,), str.translate(self, table))


Text.encode = _encode  # type: ignore[assignment,method-assign]
Text.translate = _translate  # type: ignore[assignment,method-assign]


def is_in(text: Text, container: str) -> bool:
    """Return whether a constant holds the text."""
    return bool(_asked(text, "({0} in {1})", plain(text) in container, (container,)))
