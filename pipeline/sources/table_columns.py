"""Find the columns of a table that are read, by its schema; also those inside structs.

    text       ("text",)                        a column
    meta.url   ("meta.url",)  ("meta", "url")   a column, or else a way through a struct

What is wrong with a name is an InputError that says where its way ends. `tables` reads the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.keys import Keys, did_you_mean, what_to_set

Way = tuple[str, ...]  # to a column through structs: ("meta", "url")
# Where each name is. It may be a column and a way, too: where the first is null, the next counts.
Columns = Mapping[str, tuple[Way, ...]]


def check_columns(keys: Keys | None, names: Sequence[str], path: str) -> None:
    """Raise an InputError unless every wanted column (None: all) exists exactly once; those that
    may be missing, at most once."""
    counts = Counter(names)
    for key in sorted(keys.lacking(counts) if keys else ()):
        near = did_you_mean(key, names) or did_you_mean(key.partition(".")[0], names)
        raise InputError(
            f"column {key!r} not in {path} (columns: {', '.join(names)}); "
            f"{near}{what_to_set(key, names, keys.flag if keys else '--fields')}"
        )
    for key in sorted(counts if keys is None else keys.tops):
        if counts[key] > 1:
            raise InputError(f"column {key!r} appears twice in {path}; rename one of them")


def find_columns(keys: Keys | None, schema: Any, path: str) -> Columns:
    """Return where each wanted name (None: all columns) is in the table, by the Arrow schema.

    Names that may be missing are left out if they are. An InputError says what is wrong.
    """
    check_columns(keys, schema.names, path)
    if keys is None:
        return {name: ((name,),) for name in schema.names}
    places = {name: _places_of(name, keys, schema, path) for name in sorted(keys.names)}
    return {name: ways for name, ways in places.items() if ways}


def _places_of(name: str, keys: Keys, schema: Any, path: str) -> tuple[Way, ...]:
    """Return the column, and the ways to it through structs; () if it may be missing and is."""
    top, rest = keys.top_of(name), name.partition(".")[2]
    if name not in schema.names and top not in schema.names:
        return ()
    ways: list[Way] = [(name,)] if name in schema.names else []
    if top in schema.names and top != name:
        kind = schema.field(top).type
        through = _ways_through(kind, rest, (top,))
        may_be_missing = name in keys.maybe - keys.needed
        # A way that ends at nulls gives nulls, which is not what is missing.
        ways += [w for w in through if not may_be_missing or not _is_null(type_at(schema, w))]
        is_absent = may_be_missing and _ends_in_struct(kind, rest)
        if not ways and not through and not is_absent:
            raise _not_in(name, kind, rest, (top,), path)
    return tuple(ways)


def _ends_in_struct(kind: Any, rest: str) -> bool:
    """Return whether a way ends because a struct lacks a field, not because there is no struct."""
    if not _is_struct(kind):
        return False
    child, _, rest_of = rest.partition(".")
    children = [kind.field(i).name for i in range(kind.num_fields)]
    if not rest_of or children.count(child) != 1:
        return True
    return _ends_in_struct(kind.field(child).type, rest_of)


def _is_null(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_null(kind))


def _is_struct(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_struct(kind))


def _ways_through(kind: Any, rest: str, way: Way) -> list[Way]:
    """Return the ways to a field through the structs of a column; a column of nulls is one."""
    if _is_null(kind):  # as a writer types a struct of which it saw none
        return [way]
    if not _is_struct(kind):
        return []
    children = [kind.field(i).name for i in range(kind.num_fields)]
    ways = [(*way, rest)] if children.count(rest) == 1 else []
    child, _, rest_of = rest.partition(".")
    if rest_of and children.count(child) == 1:
        ways += _ways_through(kind.field(child).type, rest_of, (*way, child))
    return ways


def _not_in(name: str, kind: Any, rest: str, way: Way, path: str) -> InputError:
    """Return the error that says where the way to a column ends."""
    while _is_struct(kind):
        children = [kind.field(i).name for i in range(kind.num_fields)]
        child, _, rest_of = rest.partition(".")
        if not rest_of or children.count(child) != 1:
            return InputError(
                f"column {name!r} not in {path} (in {'.'.join(way)!r} are: "
                f"{', '.join(children)}); {did_you_mean(child, children)}set --fields"
            )
        kind, way, rest = kind.field(child).type, (*way, child), rest_of
    return InputError(
        f"column {name!r} not in {path}: {'.'.join(way)!r} is {kind}, not a struct; set --fields"
    )


def column_at(batch: Any, way: Way) -> Any:
    """Return a column, or one inside structs: null where a struct on the way is."""
    import pyarrow.compute as pc

    column = batch.column(way[0])
    return pc.struct_field(column, list(way[1:])) if len(way) > 1 else column


def type_at(schema: Any, way: Way) -> Any:
    kind = schema.field(way[0]).type
    for name in way[1:]:
        kind = kind.field(name).type
    return kind
