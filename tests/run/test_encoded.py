"""Media in the chain: what is new is encoded, once, and becomes a part; all else stays as it is."""

from __future__ import annotations

import json
import random
import shutil
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import RunCli
from dataprep.loaders import open_dataset
from dataprep.pipeline.run.clean import UNFINISHED, UNNAMED, clean
from support.encoding import encode_here, png, rows_of
from support.forks import ForkServer
from support.nights import BOS, EOS, write_config, write_lines

CODES, TOKENIZED, PACKED = "out/seen/codes", "out/seen/tokenized", "out/seen/packed-512"


def draw(folder: Path, *numbers: int, captions: bool = True) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (folder / f"{number:02d}.png").write_bytes(png(number))
        if captions:
            (folder / f"{number:02d}.txt").write_text(f"picture {number}")


def configured(home: Path, *inputs: str, encode: Any = (), corpus: Any = (), **run: Any) -> Path:
    """Write a config; `encode` and `corpus` are more settings of the encoder and the corpus."""
    section = {"inputs": list(inputs or ("pictures",)), "encoder": "patches", **dict(encode)}
    corpora = {"seen": {"fields": "[vision],text", **dict(corpus), "encode": section}}
    return write_config(home / "c.json", corpora=corpora, seq_lens=[512], **run)


def steps(run_cli: RunCli, config: Path) -> dict[str, list[str]]:
    found = json.loads(run_cli("run", config, "--why", "--json").stdout)
    return {step["step"].rpartition("/")[2]: step["why"] for step in found}


def captions(folder: Path) -> list[str]:
    """Return the text of each document, in order: what follows the block of codes."""
    dataset = open_dataset(folder)
    found = []
    for number in range(len(dataset)):
        row = dataset[number]
        text = row["tokens"][row["loss_mask"]].tolist()
        assert text.pop() == EOS
        assert int(row["tokens"][0]) == BOS
        assert row["vision_mask"].any()
        found.append(bytes(text).decode())
    return found


def files(folder: Path) -> dict[str, tuple[int, int]]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(p): (p.stat().st_ino, p.stat().st_mtime_ns) for p in found}


def parts(home: Path) -> list[list[str]]:
    """Return what each part in use is made of."""
    names = json.loads((home / CODES / "current.json").read_text().splitlines()[0])
    return [[row["source"] for row in rows_of(home / CODES / name)] for name in names]


def told(*numbers: int) -> list[str]:
    return [f"picture {number}" for number in numbers]


def test_new_pictures_become_a_part_and_old_parts_stay(run_cli: RunCli, tmp_path: Path) -> None:
    config = configured(tmp_path)
    draw(tmp_path / "pictures", 1, 3)
    run_cli("run", config)
    before = files(tmp_path / CODES / "parts")
    assert captions(tmp_path / TOKENIZED) == told(1, 3)
    draw(tmp_path / "pictures", 2, 4)
    new = f"2 new files: {tmp_path}/pictures/02.png, {tmp_path}/pictures/04.png"
    assert steps(run_cli, config) == {
        "codes": [new],
        "tokenized": ["seen/codes changes"],
        "packed-512": ["seen/tokenized changes"],
    }
    run_cli("run", config)
    assert captions(tmp_path / TOKENIZED) == told(1, 3, 2, 4)
    assert before.items() <= files(tmp_path / CODES / "parts").items()
    assert parts(tmp_path) == [["01.png", "03.png"], ["02.png", "04.png"]]
    assert not any(steps(run_cli, config).values())
    for folder in (TOKENIZED, PACKED, f"{CODES}/parts/00001"):
        run_cli("verify", tmp_path / folder)


def test_a_part_is_what_encode_makes_of_its_media(run_cli: RunCli, tmp_path: Path) -> None:
    draw(tmp_path / "pictures", 1)
    config = configured(tmp_path)
    run_cli("run", config)
    draw(tmp_path / "pictures", 2, 3)
    run_cli("run", config)
    draw(tmp_path / "alone", 2, 3)
    alone = encode_here(tmp_path / "codes", tmp_path / "alone")
    made = json.loads((tmp_path / CODES / "parts/00001/manifest.json").read_text())
    assert made["fingerprint"] == alone["fingerprint"]
    assert made["shards"] == alone["shards"]


def test_sounds_tars_tables_and_text_grow_beside_each_other(
    run_cli: RunCli, tmp_path: Path
) -> None:
    sound = pytest.importorskip("soundfile")

    def beep(name: str, frequency: float) -> None:
        time = np.arange(800) / 8000
        path = tmp_path / f"sounds/{name}.wav"
        path.parent.mkdir(exist_ok=True)
        sound.write(path, 0.5 * np.sin(2 * np.pi * frequency * time), 8000)

    def tar(name: str, *numbers: int) -> None:
        (tmp_path / "tars").mkdir(exist_ok=True)
        with tarfile.open(tmp_path / f"tars/{name}.tar", "w") as file:
            for number in numbers:
                for ending, data in (("png", png(number)), ("txt", b"of a tar")):
                    member = tarfile.TarInfo(f"{number}.{ending}")
                    member.size = len(data)
                    file.addfile(member, BytesIO(data))

    def table(name: str, *names: str) -> None:
        rows = [{"image": f"../named/{each}", "text": "of a table"} for each in names]
        (tmp_path / "tables").mkdir(exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"tables/{name}.jsonl").write_text(text)

    draw(tmp_path / "named", 7, 8, 9, captions=False)
    media = {"encoder": "patches", "allow_outside": True}
    corpora: dict[str, Any] = {
        "heard": {
            "fields": "[audio],text?",
            "encode": {"inputs": ["sounds"], "encoder": "mulaw", "settings": {"rate": 8000}},
        },
        "tarred": {"fields": "vision,text", "encode": {"inputs": ["tars/*.tar"], **media}},
        "listed": {
            "inputs": [{"path": "texts/*.jsonl", "fields": "text"}],
            "fields": "[vision],text",
            "encode": {"inputs": ["tables/*.jsonl"], **media},
        },
    }
    config = write_config(tmp_path / "c.json", corpora=corpora, seq_lens=[2048])
    beep("a", 440)
    tar("a", 1, 2)
    table("a", "07.png")
    write_lines(tmp_path / "texts/a.jsonl", ["text"])
    run_cli("run", config)
    counts = [len(open_dataset(tmp_path / f"out/{name}/tokenized")) for name in corpora]
    assert counts == [1, 2, 2]
    beep("b", 220)
    tar("b", 3)
    table("b", "08.png", "09.png")
    write_lines(tmp_path / "texts/b.jsonl", ["more text", "and more"])
    done = json.loads(run_cli("run", config, "--json").stdout)
    counts = [len(open_dataset(tmp_path / f"out/{name}/tokenized")) for name in corpora]
    assert counts == [2, 3, 6]
    figures = {step["step"]: (step["documents"], step.get("frames")) for step in done["steps"]}
    assert figures["heard/codes"][0] == 2
    assert figures["tarred/codes"] == (3, 3)
    assert figures["listed/codes"] == (3, 3)
    assert not any(
        step["why"] for step in json.loads(run_cli("run", config, "--json").stdout)["steps"]
    )
    (tmp_path / "named/08.png").write_bytes(png(80))  # a table and what it names are one
    done = run_cli("run", config, check=False)
    assert done.code == 4
    assert f"{tmp_path}/tables/b.jsonl changed" in done.stderr


@pytest.mark.parametrize("on_changed", ["error", "ignore", "rebuild"])
def test_pictures_that_changed_or_are_gone(
    run_cli: RunCli, tmp_path: Path, on_changed: str
) -> None:
    config = configured(tmp_path, on_changed=on_changed)
    draw(tmp_path / "pictures", 1, 2)
    run_cli("run", config)
    draw(tmp_path / "pictures", 3)
    run_cli("run", config)
    first = files(tmp_path / CODES / "parts/00001")
    (tmp_path / "pictures/01.txt").write_text("another caption")
    (tmp_path / "pictures/02.png").unlink()
    draw(tmp_path / "pictures", 4)
    done = run_cli("run", config, check=False)
    names = f"{tmp_path}/pictures/01.png changed, {tmp_path}/pictures/02.png is gone"
    if on_changed == "error":
        assert done.code == 4
        assert names in done.stderr
        assert captions(tmp_path / TOKENIZED) == told(1, 2, 3)
        return
    assert done.code == 0, done.stderr
    if on_changed == "ignore":
        assert f"{names}: ignored" in done.stderr
        assert captions(tmp_path / TOKENIZED) == told(1, 2, 3, 4)
        assert parts(tmp_path) == [["01.png", "02.png"], ["03.png"], ["04.png"]]
    else:  # what did not change is not encoded again
        assert captions(tmp_path / TOKENIZED) == ["picture 3", "another caption", "picture 4"]
        assert parts(tmp_path) == [["03.png"], ["01.png", "04.png"]]
        assert first.items() <= files(tmp_path / CODES).items()
    again = run_cli("run", config, "--json")
    assert not any(step["why"] for step in json.loads(again.stdout)["steps"])


def test_other_settings_make_codes_anew_and_the_old_ones_are_found_again(
    run_cli: RunCli, tmp_path: Path
) -> None:
    config = configured(tmp_path)
    for number in (1, 2):
        draw(tmp_path / "pictures", number)
        run_cli("run", config)
    before = files(tmp_path / CODES / "parts")
    configured(tmp_path, encode={"settings": {"cells": 4}})
    assert steps(run_cli, config)["codes"] == ["encoder cells: 16 -> 4"]
    run_cli("run", config)
    assert captions(tmp_path / TOKENIZED) == told(1, 2)
    assert parts(tmp_path) == [["01.png", "02.png"]]
    configured(tmp_path, encode={"workers": 1, "on_error": "skip"})  # of no effect
    run_cli("run", config)
    assert parts(tmp_path) == [["01.png"], ["02.png"]]
    assert before.items() <= files(tmp_path / CODES / "parts").items()
    assert len([*(tmp_path / CODES / "parts").glob("*/manifest.json")]) == 3
    assert not any(steps(run_cli, config).values())


def test_a_folder_that_was_moved_holds_the_same_media(run_cli: RunCli, tmp_path: Path) -> None:
    draw(tmp_path / "pictures", 1, 2)
    run_cli("run", configured(tmp_path))
    (tmp_path / "pictures").rename(tmp_path / "moved")
    assert not any(steps(run_cli, configured(tmp_path, "moved")).values())


def test_bad_pictures_are_counted_once_and_give_no_part_to_read(
    run_cli: RunCli, tmp_path: Path
) -> None:
    config = configured(tmp_path, encode={"on_error": "skip"})
    draw(tmp_path / "pictures", 1)
    run_cli("run", config)
    (tmp_path / "pictures/bad.png").write_bytes(b"no picture")
    refused = run_cli("run", configured(tmp_path, on_error="quarantine"), check=False)
    assert refused.code == 3
    assert "set encode.on_error: skip; to list them too, set encode.on_error: q" in refused.stderr
    configured(tmp_path, encode={"on_error": "skip"})
    done = json.loads(run_cli("run", config, "--json").stdout)
    assert done["steps"][0]["counts"]["documents_dropped"] == 1
    assert [step["documents"] for step in done["steps"]] == [1, 1, 1]
    assert not any(steps(run_cli, config).values())


def test_tokenize_alone_waits_for_codes(run_cli: RunCli, tmp_path: Path) -> None:
    config = configured(tmp_path)
    draw(tmp_path / "pictures", 1)
    done = run_cli("run", config, "--only", "tokenize", check=False)
    assert done.code == 2
    assert f"{CODES} is not there yet; run its step first: --only encode" in done.stderr
    run_cli("run", config, "--only", "encode")
    assert not (tmp_path / TOKENIZED).exists()
    draw(tmp_path / "pictures", 2)
    run_cli("run", config, "--only", "tokenize")
    assert captions(tmp_path / TOKENIZED) == told(1)


def test_lost_and_damaged_parts_and_lists(run_cli: RunCli, tmp_path: Path) -> None:
    config = configured(tmp_path)
    for number in (1, 2):
        draw(tmp_path / "pictures", number)
        run_cli("run", config)
    whole = files(tmp_path / CODES)
    place = tmp_path / CODES / "parts"
    shutil.rmtree(place / "00001")
    assert steps(run_cli, config)["codes"] == ["parts/00001 is missing"]
    run_cli("run", config)
    assert set(files(tmp_path / CODES)) == set(whole)
    assert captions(tmp_path / TOKENIZED) == told(1, 2)
    for path in (place / "00000.json", place / "00000/manifest.json", place / "../current.json"):
        data = path.read_bytes()
        path.write_bytes(data[:9] + bytes([data[9] ^ 1]) + data[10:])
        done = run_cli("run", config, check=False)
        assert done.code == 5
        assert str(path.parent.resolve() / path.name).rpartition("/parts")[0] in done.stderr
        assert path.name in done.stderr
        path.write_bytes(data)
    shard = next(place.glob("00000/shards/*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    done = run_cli("run", config, check=False)
    assert done.code == 5
    assert str(shard) in done.stderr


def test_clean_never_removes_codes_that_are_in_use(run_cli: RunCli, tmp_path: Path) -> None:
    config = configured(tmp_path)
    draw(tmp_path / "pictures", 1)
    run_cli("run", config)
    assert clean(tmp_path / "out").leftovers == ()
    configured(tmp_path, encode={"settings": {"cells": 4}})
    run_cli("run", config)
    (tmp_path / CODES / "parts/00002.json").write_text("of a run that was killed")
    assert [(x.path.name, x.reason) for x in clean(tmp_path / "out").leftovers] == [
        ("00002.json", UNFINISHED)
    ]
    found = clean(tmp_path / "out", keep=1, go=True)
    codes = [(x.path.name, x.reason) for x in found.leftovers if CODES in str(x.path)]
    assert codes == [("00002.json", UNFINISHED), ("00000", UNNAMED)]
    assert sorted(p.name for p in (tmp_path / CODES / "parts").iterdir()) == ["00001", "00001.json"]
    assert not any(steps(run_cli, config).values())
    run_cli("verify", tmp_path / TOKENIZED)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_where_it_was(
    run_cli: RunCli, commands: ForkServer, tmp_path: Path, seed: int
) -> None:
    """Pictures come in between kills and the next try; nothing is encoded twice or left out."""
    rng = random.Random(seed)
    config = configured(tmp_path, encode={"shard_records": 4})
    drawn, killed = 0, 0
    for _night in range(4):
        for _try in range(3):
            draw(tmp_path / "pictures", *range(drawn, drawn + 5))
            drawn += 5
            run = commands.start(["run", str(config)], cwd=tmp_path)
            killed += run.kill(after=rng.uniform(0.05, 0.5)).was_killed
        run_cli("run", config)
        assert sorted(captions(tmp_path / TOKENIZED)) == sorted(told(*range(drawn)))
        made = [name for part in parts(tmp_path) for name in part]
        assert sorted(made) == [f"{number:02d}.png" for number in range(drawn)]
        assert not any(steps(run_cli, config).values())
        assert not [*(tmp_path / "out").rglob(".work")]
        assert not [*(tmp_path / "out").rglob("*.tmp")]
    assert killed >= 6
    for folder in (TOKENIZED, PACKED):
        run_cli("verify", tmp_path / folder)


def test_codes_of_a_forgotten_picture_go_with_the_picture(run_cli: RunCli, tmp_path: Path) -> None:
    """As docs/nightly.md has it: forget leaves codes, since rows are known by them."""
    config = configured(tmp_path)
    draw(tmp_path / "pictures", 1, 2)
    run_cli("run", config)
    draw(tmp_path / "pictures", 3)
    run_cli("run", config)
    (tmp_path / "list").write_text("00000/shards/codes-00000-of-00001.parquet:2\n")
    done = run_cli("forget", tmp_path / "out", "--documents", tmp_path / "list")
    assert f"{tmp_path / CODES} still holds the codes of all media" in done.stdout
    assert [row["source"] for row in rows_of(tmp_path / CODES / "parts/00000")][1] == "02.png"
    for path in (tmp_path / "pictures").glob("02.*"):
        path.unlink()
    configured(tmp_path, on_changed="rebuild")
    run_cli("run", config)
    run_cli("clean", tmp_path / "out", "--keep", "1", "--go")
    held = [
        row["source"] for part in (tmp_path / CODES / "parts").glob("*/") for row in rows_of(part)
    ]
    assert sorted(held) == ["01.png", "03.png"]
    assert sorted(captions(tmp_path / TOKENIZED)) == told(1, 3)
    run_cli("verify", tmp_path / "out")
