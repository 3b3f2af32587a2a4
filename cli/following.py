"""The command that most people type next, so that it can be pasted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dataprep.configs.pack import PackConfig

SEQ_LEN = 4096  # where nobody said another
SPELLED = ("inputs", "seq_len", "out")  # said by flags, whoever said them before


def packing_of(
    out: Path | str, pack: PackConfig, files: Sequence[str], sets: Sequence[str]
) -> list[str]:
    """Return the command that packs a dataset, as config files and --set say it under `pack`.

    >>> packing_of(Path("tok"), PackConfig(), ["c.yaml"], [])
    ['dataprep', 'pack', 'tok', '--seq-len', '4096', '--out', 'DIR']
    >>> config = PackConfig(seq_len=8, strategy="pad")
    >>> packing_of(Path("tok"), config, ["c.yaml"], ["pack.seq_len=8"])[3:]
    ['--config', 'c.yaml', '--seq-len', '8', '--out', 'DIR']
    """
    others = [key for key in PackConfig.model_fields if key not in SPELLED]
    own = [item.removeprefix("pack.") for item in sets if item.startswith("pack.")]
    words = ["dataprep", "pack", str(out)]
    if any(getattr(pack, key) != PackConfig.model_fields[key].default for key in others):
        for file in files:
            words += ["--config", file]
    for item in own:
        if item.partition("=")[0] not in SPELLED:
            words += ["--set", item]
    return [*words, "--seq-len", str(pack.seq_len or SEQ_LEN), "--out", pack.out or "DIR"]
