"""Take settings that the config leaves open from the encoders that made the codes.

    a.parquet   vision: tokens_per_frame 64, codebook_size 8192   ─►   modalities.vision.*

Never against the config, and never for codes that another encoder may have made: a frame of another
size, or another codebook, would shift every code after the first. Only columns that the fields name
count; if the records bring their own fields, or segments, all columns of codes do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import cast

from dataprep.configs.base import Model
from dataprep.configs.load import validate
from dataprep.configs.modalities import ModalitiesConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.documents.kinds import FIELD_KINDS
from dataprep.pipeline.documents.rules import fields_of, modalities_of_input
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.sources.makers import CodeMakers, Maker, read_made
from dataprep.pipeline.threads.several import in_threads
from dataprep.pipeline.types import MODALITIES, Modality, Source

MAX_THREADS = 8
ENDS = ("end_of_frame", "end_of_media")


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The codes of one source that become blocks of a modality."""

    path: str
    maker: Maker

    @property
    def folder(self) -> str:
        """Return the dataset of codes that the file is in, d/shards/a.parquet -> d, or the file."""
        parent = self.path.rpartition("/")[0]
        return parent.removesuffix("/shards") if parent.endswith("/shards") else self.path

    def __str__(self) -> str:
        return f"column {self.maker.column!r} of {self.folder}"


def adopt_encoders(
    config: TokenizeConfig, sources: Sequence[Source], inputs: Sequence[int]
) -> TokenizeConfig:
    """Return the config with what the encoders say; `inputs` has the input of each source."""
    columns = [
        {modality: _columns(config, i, modality) for modality in MODALITIES}
        for i in range(len(config.inputs))
    ]
    found = list(zip(sources, inputs, strict=True))
    made = _made(source for source, i in found if any(columns[i].values()))
    sections: dict[str, Model] = {}
    for modality in MODALITIES:
        uses = [
            use
            for source, i in found
            for column in columns[i][modality]
            for use in _uses(source.path, made.get(source.path, CodeMakers()), column, modality)
        ]
        if any(use.maker.facts for use in uses):
            sections[modality] = _adopted(config.modalities.section(modality), modality, uses)
    if not sections:
        return config
    modalities = ModalitiesConfig.model_validate({**dict(config.modalities), **sections})
    return config.model_copy(update={"modalities": modalities})


def _columns(config: TokenizeConfig, index: int, modality: str) -> tuple[str | None, ...]:
    """Return the columns of an input whose codes are of a modality; None: perhaps any column."""
    fields = fields_of(config, index)
    if isinstance(fields, str):
        return (None,) if modality in modalities_of_input(config, index) else ()
    return tuple(
        field.keys[0] if field.mask else None
        for field in fields
        if modality in FIELD_KINDS[field.kind].modalities(field)
    )


def _made(sources: Iterable[Source]) -> dict[str, CodeMakers]:
    """Return by path what the footers say about codes; several are read at once."""
    by_path = {source.path: source for source in sources}
    return dict(zip(by_path, in_threads(read_made, by_path.values(), MAX_THREADS), strict=True))


def _uses(path: str, made: CodeMakers, column: str | None, modality: str) -> Iterator[Use]:
    found = made.by(column, modality)
    keys = set() if column is None else {column, column.partition(".")[0]}
    if keys and made.columns and not found and not keys & made.columns:
        return  # a table without this column, which is optional, or is refused when it is read
    unknown = Maker(column=column or "", kind=cast(Modality, modality))
    for maker in found or [unknown]:
        if maker.kind != modality:
            raise ConfigError(
                f"column {column!r} of {path} holds {maker.kind} codes (encoder {maker.encoder}), "
                f"but is taken for {modality} by its name; set modalities.{maker.kind}.fields and "
                f"modalities.{modality}.fields"
            )
        yield Use(path=path, maker=maker)


def _adopted(section: Model, modality: str, uses: Sequence[Use]) -> Model:
    first, *others = [use for use in uses if use.maker.facts]
    facts = first.maker.facts
    for other in others:
        if other.maker.facts != facts:
            raise ConfigError(
                f"{first} has {_said(facts)}, {other} has {_said(other.maker.facts)}; "
                "tokenize them apart"
            )
    unknown = next((use.path for use in uses if not use.maker.facts), None)
    _check_set(section, modality, first, unknown)
    values = {**section.model_dump(exclude_unset=True), **facts}
    if "codebook_size" in facts and modality == "vision":
        values |= _free_ends(section, facts["codebook_size"])
    adopted = validate(type(section), values, f"what {first.folder} says about its codes")
    if unknown is not None and adopted.model_dump() != section.model_dump():
        # Its frames would change because another input has an encoder.
        raise ConfigError(
            f"{first} has {_said(facts)} (encoder {first.maker.encoder}), but nothing tells what "
            f"made the {modality} codes of {unknown}; if they are framed so too, say it: "
            f"{_sets(section, adopted, modality)}; else tokenize them apart"
        )
    return adopted


def _check_set(section: Model, modality: str, use: Use, unknown: str | None) -> None:
    """Raise if the user set something else than the encoder says."""
    for key, value in use.maker.facts.items():
        mine = getattr(section, key)
        if key in section.model_fields_set and mine != value:
            fix = f"tokenize it apart from {unknown}" if unknown else "leave it unset"
            raise ConfigError(
                f"modalities.{modality}.{key} is set to {mine}, but {use} has {value} "
                f"(encoder {use.maker.encoder}); {fix}"
            )


def _sets(before: Model, after: Model, modality: str) -> str:
    """Return the flags that turn `before` into `after`."""
    return " ".join(
        f"--set modalities.{modality}.{key}={value}"
        for key, value in after.model_dump().items()
        if getattr(before, key) != value
    )


def _free_ends(section: Model, codebook_size: int) -> dict[str, int]:
    """Return ids after the codes for frame ends that nobody set and that would be codes."""
    unset = [key for key in ENDS if key not in section.model_fields_set]
    if all(getattr(section, key) >= codebook_size for key in unset):
        return {}
    taken = {getattr(section, key) for key in ENDS if key not in unset}
    free = (number for number in count(codebook_size) if number not in taken)
    return dict(zip(unset, free, strict=False))


def _said(facts: Mapping[str, int]) -> str:
    return " and ".join(f"{key} {value}" for key, value in facts.items())
