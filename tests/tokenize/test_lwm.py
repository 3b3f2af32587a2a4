"""Documents equal LWM's own, token by token and mask by mask; its bugs only on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataprep.pipeline.documents.fields import choose_spec
from dataprep.pipeline.errors import ConfigError, InputError
from support.inprocess import documents_of
from support.toy import write_toy_tokenizer

SMALL_FRAMES = {"modalities": {"vision": {"tokens_per_frame": 2, "max_frames": 2}}}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def toy_with_bos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy_bos"), adds_bos=True)


def test_a_bracketed_field_has_no_loss(toy: Path, tmp_path: Path) -> None:
    records = [{"q": "ab", "a": "c"}, {"q": "d", "a": "ef"}]
    first, second = documents_of(tmp_path, toy, records, fields="[q],a")
    assert first.tokens == [1, 100, 101, 102, 2]
    assert first.loss == [0, 0, 0, 1, 1]
    assert second.tokens == [1, 103, 104, 105, 2]
    assert second.loss == [0, 0, 1, 1, 1]


def test_a_vision_block_is_wrapped_and_thinned_as_lwm_does(toy: Path, tmp_path: Path) -> None:
    record = {"q": "a", "a": "b", "vision": [10, 11, 20, 21, 30, 31, 40]}
    (seen,) = documents_of(tmp_path, toy, [record], fields="[q],vision,a", **SMALL_FRAMES)
    assert seen.tokens == [1, 100, 90, 10, 11, 8192, 30, 31, 8193, 91, 101, 2]
    assert seen.loss == [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    assert seen.vision == [0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0]


def test_listed_specs_are_chosen_by_line_number(toy: Path, tmp_path: Path) -> None:
    specs = ["[q],[vision],a", "[a],vision"]
    record = {"fields": specs, "q": "c", "a": "d", "vision": [3, 4, 5, 6]}
    seen = documents_of(tmp_path, toy, [record] * 4, fields_from="fields", **SMALL_FRAMES)
    assert seen[0].tokens == [1, 103, 90, 3, 4, 8192, 5, 6, 8193, 91, 2]
    assert seen[0].loss == [0, 0] + [1] * 9
    for other in seen[1:]:
        assert other.tokens == [1, 102, 90, 3, 4, 8192, 5, 6, 8193, 91, 103, 2]
        assert other.loss == [0] * 10 + [1, 1]
        assert other.vision == [0, 0, 0] + [1] * 6 + [0, 0, 0]


def test_choices_equal_those_of_pythons_seeded_random() -> None:
    assert [choose_spec(["A", "B"], i, None) for i in range(10)] == list("BAAAABABAB")
    assert [choose_spec(["A", "B", "C"], i, None) for i in range(10)] == list("BAAAACCBAB")


def test_blank_and_bad_lines_count_for_the_choice(toy: Path, tmp_path: Path) -> None:
    good = {"fields": ["a", "a,a"], "a": "x"}
    lines = [good, "", "   ", "{bad", "null", good]
    seen = documents_of(tmp_path, toy, lines, fields_from="fields", on_error="skip")
    # Lines 0 and 5 both choose the second spec ('B' above).
    assert [s.tokens for s in seen] == [[1, 123, 123, 2]] * 2


def test_fields_index_fixes_the_choice(toy: Path, tmp_path: Path) -> None:
    record = {"fields": ["a", "a,a"], "a": "x"}
    seen = documents_of(tmp_path, toy, [record] * 3, fields_from="fields", fields_index=0)
    assert [s.tokens for s in seen] == [[1, 123, 2]] * 3
    with pytest.raises(InputError, match="fields_index 2 is out of range"):
        documents_of(tmp_path / "b", toy, [record], fields_from="fields", fields_index=2)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("[a,b]", "stray bracket"),
        ("a,", "empty field"),
        ("[]", "empty field"),
        ("[a]b", "stray bracket"),
        ("<|999|>", "outside the vocabulary"),
        ("<|-1|>", r"field '<\|-1\|>' is not an id; ids are <\|0\|> to <\|2147483647\|>"),
        ("<|99999999999|>,a", "is not an id"),
        ("[<|1.5|>]", "is not an id"),
    ],
)
def test_a_malformed_spec_is_refused_before_reading(
    toy: Path, tmp_path: Path, spec: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        documents_of(tmp_path, toy, [{"a": "x", "b": "y"}], fields=spec)


def test_a_spec_is_not_stripped(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 1 of .*field ' b' is missing \(keys: a, b\)"):
        documents_of(tmp_path, toy, [{"a": "x", "b": "y"}], fields="a, b")


@pytest.mark.parametrize(
    ("spec", "config", "tokens", "loss"),
    [
        ("<|bos|>,a,[<|eos|>]", {}, [1, 1, 123, 2, 2], [0, 1, 1, 0, 1]),
        ("[a+b],b", {}, [1, 123, 99, 124, 124, 2], [0, 0, 0, 0, 1, 1]),
        ("a,b", {"prepend_text": "p"}, [1, 115, 123, 124, 2], [0, 1, 1, 1, 1]),
        ("<|bos|>,a", {"prepend_text": "p"}, [1, 1, 123, 2], [0, 1, 1, 1]),
        ("[a],b", {"prepend_text": "p"}, [1, 115, 123, 124, 2], [0, 0, 0, 1, 1]),
        ("[a],[b]", {}, [1, 123, 124, 2], [0, 0, 0, 1]),
        ("<|5|>,a", {}, [1, 5, 123, 2], [0, 1, 1, 1]),
        ("a+b", {"subfield_separator": ""}, [1, 123, 124, 2], [0, 1, 1, 1]),
        ("a", {"add_bos": False, "add_eos": False}, [123], [1]),
        ("{raw},[a]", {}, [1, 7, 8, 123, 2], [0, 1, 1, 0, 1]),
    ],
)
def test_the_grammar(
    toy: Path,
    tmp_path: Path,
    spec: str,
    config: dict[str, Any],
    tokens: list[int],
    loss: list[int],
) -> None:
    # BwAAAAgAAAA= is base64 of the little-endian i32 pair 7, 8.
    record = {"a": "x", "b": "y", "raw": "BwAAAAgAAAA="}
    (seen,) = documents_of(tmp_path, toy, [record], fields=spec, **config)
    assert (seen.tokens, seen.loss) == (tokens, loss)


def test_prepended_text_is_lost_before_a_vision_field(toy: Path, tmp_path: Path) -> None:
    record = {"a": "x", "vision": [3, 4]}
    (seen,) = documents_of(
        tmp_path, toy, [record], fields="[vision],a", prepend_text="p", **SMALL_FRAMES
    )
    assert seen.tokens == [1, 90, 3, 4, 8193, 91, 123, 2]


def test_an_empty_text_is_bos_and_eos(toy: Path, tmp_path: Path) -> None:
    (seen,) = documents_of(tmp_path, toy, [{"text": ""}], compat="lwm")
    assert (seen.tokens, seen.loss) == ([1, 2], [0, 1])


def test_a_document_without_any_token_is_empty_and_not_written(toy: Path, tmp_path: Path) -> None:
    seen = documents_of(tmp_path, toy, [{"text": ""}, {"text": "a"}], add_bos=False, add_eos=False)
    assert [s.tokens for s in seen] == [[100]]


@pytest.mark.parametrize("value", [3, None, ["a"], {"a": 1}, True])
def test_a_value_that_is_no_text_is_an_error(toy: Path, tmp_path: Path, value: Any) -> None:
    with pytest.raises(InputError, match=r"line 2 of .*in\.jsonl.*field 'text' must be text, got"):
        documents_of(tmp_path, toy, [{"text": "a"}, {"text": value}], compat="lwm")


@pytest.mark.parametrize("codes", [["10", "11"], [10.0, 11.0], [10, "11"]])
def test_string_and_integral_float_codes_equal_ints(
    toy: Path, tmp_path: Path, codes: list[Any]
) -> None:
    (seen,) = documents_of(tmp_path, toy, [{"vision": codes}], fields="vision", **SMALL_FRAMES)
    assert seen.tokens == [1, 90, 10, 11, 8193, 91, 2]


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ([1], "fewer than one frame"),
        ([1, 1.7], "is not an integer"),
        ([1, 8192], "outside 0..8191"),
        ([-1, 2], "outside 0..8191"),
        ([[1, 2], [3, 4]], "nested list"),
        ([1, "x"], "is not an integer"),
        ([1, None], "NoneType"),
        ([True, 1], "bool"),
        ([2**70, 1], "does not fit 64 bits"),
        ("some text", "must be a list of codes"),
        ("text", "must be a list of codes"),
        (5, "must be a list of codes"),
        ({"a": 1}, "must be a list of codes"),
    ],
)
def test_bad_codes_are_errors_that_name_the_field(
    toy: Path, tmp_path: Path, codes: Any, message: str
) -> None:
    with pytest.raises(InputError, match=f"line 1 of .*field 'vision' .*{message}"):
        documents_of(tmp_path, toy, [{"vision": codes}], fields="vision", **SMALL_FRAMES)


def test_a_partial_frame_can_be_an_error(toy: Path, tmp_path: Path) -> None:
    vision = {"tokens_per_frame": 2, "partial_frame": "error"}
    with pytest.raises(InputError, match="not a whole number of frames of 2"):
        documents_of(
            tmp_path, toy, [{"vision": [1, 2, 3]}], fields="vision", modalities={"vision": vision}
        )


@pytest.mark.parametrize(("frames", "most"), [(31, 23), (61, 45), (5, 1), (3, 7)])
def test_frames_are_thinned_by_numpys_linspace(
    toy: Path, tmp_path: Path, frames: int, most: int
) -> None:
    vision = {"tokens_per_frame": 1, "max_frames": most}
    record = {"vision": list(range(frames))}
    (seen,) = documents_of(tmp_path, toy, [record], fields="vision", modalities={"vision": vision})
    kept = np.linspace(0, frames - 1, min(frames, most)).astype(int).tolist()
    assert seen.tokens[2:-2:2] == kept


def test_a_name_that_only_contains_vision_is_text_unless_lwm_is_asked_for(
    toy: Path, tmp_path: Path
) -> None:
    (seen,) = documents_of(tmp_path, toy, [{"television": "a"}], fields="television")
    assert seen.tokens == [1, 100, 2]
    record = {"television": "a", "fields": "television"}
    with pytest.raises(InputError, match="must be a list of codes"):
        documents_of(tmp_path / "b", toy, [record], fields_from="fields", compat="lwm")


def test_vision_plus_text_in_one_field_is_a_missing_field(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"field 'vision\+a' is missing"):
        documents_of(tmp_path, toy, [{"vision": [1, 2], "a": "x"}], fields="vision+a")


def test_the_tokenizers_own_bos_stays_out_unless_lwm_is_asked_for(
    toy_with_bos: Path, tmp_path: Path
) -> None:
    vision = {"tokens_per_frame": 2}
    record = {"fields": "[a],vision", "a": "x", "vision": [100, 123]}
    settings: dict[str, Any] = {"fields_from": "fields", "modalities": {"vision": vision}}
    (right,) = documents_of(tmp_path / "a", toy_with_bos, [record], **settings)
    assert right.tokens == [1, 123, 90, 100, 123, 8193, 91, 2]
    (quirk,) = documents_of(tmp_path / "b", toy_with_bos, [record], compat="lwm", **settings)
    assert quirk.tokens == [1, 1, 123, 1, 90, 100, 123, 8193, 1, 91, 2]
    assert quirk.loss == [0, 0, 0] + [1] * 8
    assert quirk.vision == [0] * 5 + [1] * 3 + [0] * 3
    (text,) = documents_of(tmp_path / "c", toy_with_bos, [record], compat="lwm", fields="a")
    assert text.tokens == [1, 123, 2]


def test_code_offset_moves_codes_and_frame_ends(toy: Path, tmp_path: Path) -> None:
    vision = {"tokens_per_frame": 2, "code_offset": 1000, "start": [7], "end": [8, 9]}
    (seen,) = documents_of(
        tmp_path, toy, [{"vision": [1, 2]}], fields="vision", modalities={"vision": vision}
    )
    assert seen.tokens == [1, 7, 1001, 1002, 9193, 8, 9, 2]
    assert seen.vision == [0, 0, 1, 1, 1, 0, 0, 0]
