"""Fuzz a target with atheris, which looks for inputs that reach new code of dataprep.

python -m support.coverage manifest 600 FOLDER      ten minutes; exits with an error at the first
                                                    exception that is not declared
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["dataprep"]):
    from dataprep.pipeline.errors import DataprepError
    from support.fuzz import TARGETS, examples


def main(target: str, seconds: str, corpus: Path) -> None:
    corpus.mkdir(parents=True, exist_ok=True)
    for number, example in enumerate(examples(target)):
        (corpus / str(number)).write_bytes(example)

    def once(data: bytes) -> None:
        with suppress(DataprepError):
            TARGETS[target](data)

    atheris.Setup(["fuzz", f"-max_total_time={seconds}", "-rss_limit_mb=0", str(corpus)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
