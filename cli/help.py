"""How help looks: commands under the task they serve, options under the question they answer."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_origin

import typer
from pydantic import BaseModel
from typer.core import TyperCommand, TyperGroup

from dataprep.configs.base import IS_PATH, MAY_BE_PATH

# The same letter for the same thing, on every command.
LETTERS = {"out": "-o", "workers": "-j"}
METAVARS = {IS_PATH: "PATH", MAY_BE_PATH: "PATH|NAME"}
METAVARS_OF_TYPES = {int: "N", float: "X", str: "TEXT"}

_SHOWN: Mapping[type, Any] = {
    bool: lambda value: "yes",
    int: "{:,}".format,
    str: lambda value: value if value.strip() else repr(value),
}


class Flags:
    """Makes the flag of each key of a config: its name, what it is, and its default."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._fields = model.model_fields

    def about(self, key: str) -> str:
        """Return the help of a key, with its default if it has one that is worth a word."""
        field = self._fields[key]
        text, default = field.description or "", field.default
        if "default:" in text or default in (None, "", (), 0) or field.is_required():
            return text
        shown = _SHOWN.get(type(default), str)(default)
        return f"{text}  [default: {shown}]"

    def __call__(self, key: str, *names: str, metavar: str | None = None) -> Any:
        """Return what typer needs to know; `names`: of a switch, `--add-bos/--no-add-bos`."""
        if names:
            return typer.Option(*names, help=self.about(key))
        own = [f"--{key.replace('_', '-')}", *([LETTERS[key]] if key in LETTERS else [])]
        choices = choices_in(self._fields[key].annotation)
        shown = metavar or (f"<{'|'.join(choices)}>" if choices else self._metavar(key))
        return typer.Option(
            *own,
            metavar=shown,
            help=self.about(key),
            # The config checks all values, and says what is wrong as it does of files.
            parser=str if choices or shown in ("N", "X", "SECONDS") else None,
            autocompletion=(lambda: choices) if choices else None,
        )

    def _metavar(self, key: str) -> str | None:
        """Return what stands for a value."""
        field = self._fields[key]
        marked = [METAVARS[mark] for mark in field.metadata if mark in METAVARS]
        kinds = [field.annotation, *_parts(field.annotation)]
        typed = [METAVARS_OF_TYPES[kind] for kind in kinds if kind in METAVARS_OF_TYPES]
        return next(iter((*marked, *typed)), None)


def choices_in(annotation: Any) -> list[str]:
    """Return the choices of a flag, none of a key that takes other values too.

    >>> from typing import Literal
    >>> choices_in(Literal["a", "b"] | None), choices_in(int | Literal["auto"])
    (['a', 'b'], [])
    """
    inner = [kind for kind in get_args(annotation) if kind is not type(None)]
    if not _is_literal(annotation) and len(inner) == 1:
        annotation = inner[0]
    return [str(name) for name in get_args(annotation)] if _is_literal(annotation) else []


def choice(choices: Any, *names: str, help: str) -> Any:
    """Return what typer needs to know of a flag with these choices that is no key of a config."""
    known = choices_in(choices)

    def chosen(text: str) -> str:
        if text not in known:
            near = difflib.get_close_matches(text, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(known)}{hint}")
        return text

    shown = f"<{'|'.join(known)}>"
    return typer.Option(
        *names, metavar=shown, help=help, parser=chosen, autocompletion=lambda: known
    )


def _is_literal(annotation: Any) -> bool:
    return str(get_origin(annotation)) == "typing.Literal"


def _parts(annotation: Any) -> list[Any]:
    """Return the types that an annotation is made of, without the choices of a Literal."""
    inner = () if _is_literal(annotation) else get_args(annotation)
    return [part for item in inner for part in (item, *_parts(item))]


class PlainCommand(TyperCommand):
    """A command whose help calls its arguments by their names: DATASET, not {DATASET} or <str>."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        return [re.sub(r"^\{(.+)\}(\.*)$", r"\1\2", piece) for piece in pieces]

    def help_records(self, ctx: Any) -> dict[str, tuple[str, str]]:
        """Return how each parameter is written, and what is said of it, by its name."""
        records: dict[str, tuple[str, str]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                written, about = record
                if param.param_type_name == "argument":
                    written = written.partition(" <")[0]  # INPUT <list[str]>
                records[param.name or ""] = written, about
        return records

    def format_options(self, ctx: Any, formatter: Any) -> None:
        records = self.help_records(ctx)
        arguments = {p.name for p in self.get_params(ctx) if p.param_type_name == "argument"}
        for title, is_argument in (("Arguments", True), ("Options", False)):
            shown = [r for name, r in records.items() if (name in arguments) == is_argument]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)


def in_sections(
    sections: Mapping[str, Sequence[str]], may_lack_value: Sequence[str] = ()
) -> type[TyperCommand]:
    """Return the class of a command whose options are shown in sections; the rest comes last.

    Some options may stand without a value, as `--chat`.
    """

    class Command(PlainCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return list(super().parse_args(ctx, with_values(args, may_lack_value)))

        def format_options(self, ctx: Any, formatter: Any) -> None:
            records = self.help_records(ctx)
            for title, names in sections.items():
                with formatter.section(title):
                    formatter.write_dl([records.pop(name) for name in names])
            if records:
                with formatter.section("Help"):
                    formatter.write_dl(list(records.values()))

    return Command


def with_values(args: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return arguments in which an option without a value has an empty one.

    What follows is its value only if it can be the key of a record and is no file.

    >>> with_values(["a.jsonl", "--chat", "messages", "-q"], ["--chat"])
    ['a.jsonl', '--chat', 'messages', '-q']
    >>> with_values(["--chat", "data/a.jsonl", "--chat"], ["--chat"])
    ['--chat=', 'data/a.jsonl', '--chat=']
    """
    found: list[str] = []
    for i, arg in enumerate(args):
        after = args[i + 1] if i + 1 < len(args) else "-"
        is_key = re.fullmatch(r"[^\W\d][\w.]*", after) and not os.path.exists(after)
        found.append(f"{arg}=" if arg in options and not is_key else arg)
    return found


def by_task(tasks: Mapping[str, Mapping[str, str]]) -> type[TyperGroup]:
    """Return the class of a command whose commands are shown by task."""

    class Commands(TyperGroup):
        def format_commands(self, ctx: Any, formatter: Any) -> None:
            for title, commands in tasks.items():
                with formatter.section(title):
                    formatter.write_dl(list(commands.items()))

    return Commands
