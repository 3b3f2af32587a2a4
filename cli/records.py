"""How `inspect` shows a record of a dataset of codes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dataprep.cli.show import echo, print_json
from dataprep.pipeline.errors import ConfigError, counted, short
from dataprep.pipeline.look.codes import CodeRecord, read_record
from dataprep.pipeline.look.decoders import encoder_of
from dataprep.pipeline.look.lookup import FileLine
from dataprep.pipeline.look.media import write_codes
from dataprep.pipeline.storage.manifest import EncodedManifest, read_manifest
from dataprep.pipeline.storage.places import dataset_folder

FIRST_CODES = 12


def show_record(
    dataset: str,
    doc: int | FileLine | None,
    given: Sequence[str],
    media: str | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    folder = dataset_folder(dataset)
    manifest = read_manifest(folder)
    assert isinstance(manifest, EncodedManifest)
    if given and given != ["--doc"]:
        raise ConfigError(f"{dataset} is encoded: it holds records of codes, so use --doc")
    if isinstance(doc, FileLine):
        raise ConfigError(f"--doc: {dataset} is encoded: name a record by its number, from 0")
    count, number = manifest.counts["documents_written"], doc or 0
    if not -count <= number < count:
        raise ConfigError(f"--doc {number}: {dataset} has {counted(count, 'record')}, from 0 on")
    record = read_record(folder, manifest, number % count)
    kind, stem = manifest.encoder.kind, f"doc-{record.number}"
    written = (
        write_codes(record.codes, kind, encoder_of(folder), Path(media), stem) if media else []
    )
    if as_json:
        print_json(
            {
                "record": record.number,
                "file": str(record.path),
                "row": record.row,
                "column": record.name,
                "shape": list(record.codes.shape),
                "codes": record.codes.tolist(),
                "columns": json.loads(json.dumps(record.columns, default=str)),
                **({"media": written} if media else {}),
            }
        )
        return
    for line in (*_lines(record)[quiet:], *written):  # the first is the title
        echo(line)


def _lines(record: CodeRecord) -> list[str]:
    shape = "×".join(map(str, record.codes.shape))
    first = " ".join(map(str, record.codes.ravel()[:FIRST_CODES].tolist()))
    more = " …" if record.codes.size > FIRST_CODES else ""
    columns = {record.name: f"{shape} codes: {first}{more}", **record.columns}
    return [
        f"record {record.number}: row {record.row} of {record.path}",
        *(f"  {name}: {short(_shown(value), 300)}" for name, value in columns.items()),
    ]


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(text, ensure_ascii=True)
