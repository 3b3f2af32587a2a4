"""Prove engines for well-known tokenizers, and write the proofs that come with the package.

    python scripts/ship_proofs.py TOKENIZERS [--cache DIR]

TOKENIZERS holds NAME/tokenizer.json for the names below. Only the very bytes that the hub has are
of use to others, so any other file is refused. Run it again when an engine, `tokenizers` or the
sweep changes: it takes up to a minute for each engine and tokenizer. With a --cache it continues
where an earlier run of it was stopped.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dataprep.pipeline.engine import prove, resolve_tokenizer
from dataprep.pipeline.engine.fast import ADAPTERS
from dataprep.pipeline.engine.proof.shipped import FILE, ShippedProof, write_shipment

# Folder, a repository of the hub that has this file, sha256 of its tokenizer.json there.
WELL_KNOWN = (
    (
        "qwen3",
        "Qwen/Qwen3-8B",  # of all sizes
        "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    ),
    (
        "gpt2",
        "Xenova/gpt2",
        "cda20b8ca044949aa07ac4078420c80d1a57139d5f9f33700e46fb2d891e7c66",
    ),
    (
        "cl100k",
        "Xenova/gpt-4",
        "239eb2359f79c38497476671aaa835e01fb43d42743c612a8514a0dfa2ac93a2",
    ),
    (
        "bert",
        "sentence-transformers/all-MiniLM-L6-v2",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tokenizers", type=Path)
    parser.add_argument("--cache", type=Path)
    arguments = parser.parse_args()
    # Not to find the proofs of last time.
    FILE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as name:
        proofs = tuple(proofs_of(arguments.tokenizers, arguments.cache or Path(name)))
    write_shipment(proofs)
    print(f"{FILE}: {len(proofs)} proofs, {FILE.stat().st_size:,} bytes")


def proofs_of(tokenizers: Path, cache: Path) -> Iterator[ShippedProof]:
    for folder, name, sha256 in WELL_KNOWN:
        files = resolve_tokenizer(str(tokenizers / folder))
        if files.sha256 != sha256:
            raise SystemExit(f"{files.path} is not the file that {name} has on the hub")
        for engine in ADAPTERS:
            proof = prove(engine, files, cache_dir=cache)
            print(name, engine, "equal" if proof.equal else proof.why_not, flush=True)
            # An engine that does not load says so at once, without a proof.
            if proof.swept.num_characters and not proof.failed:
                yield ShippedProof(tokenizer=name, sha256=sha256, proof=proof)


if __name__ == "__main__":
    main()
