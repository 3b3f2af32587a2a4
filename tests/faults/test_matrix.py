"""The fifty faults, by number, and the tests that hold the outcome of each.

A test is named by its file below tests/ and its function. Tests of this folder are found by their
own names (`test_7_…`); the table adds those of other folders.
"""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from support.forks import TESTS
from support.named import exists, names_in_file

FAULTS = {
    1: "SIGKILL of the parent",
    2: "SIGKILL of a worker",
    3: "out of memory",
    4: "SIGTERM and Ctrl-C",
    5: "a stuck worker",
    6: "a poison document",
    7: "a full disk",
    8: "EIO of fsync",
    9: "a kill between fsync, rename and manifest",
    10: "power loss",
    11: "a read-only file system",
    12: "too many open files",
    13: "a truncated shard",
    14: "a flipped bit",
    15: "shards swapped or replaced",
    16: "a shard deleted in training",
    17: "a shard truncated in training",
    18: "a corrupt, missing or newer manifest",
    19: "a manifest that leads out of its folder",
    20: "a malformed JSON line",
    21: "invalid UTF-8",
    22: "a lone surrogate",
    23: "NUL, U+2028, BOM, CRLF, UTF-16",
    24: "a line of 100 MB",
    25: "deep nesting, huge numbers, NaN",
    26: "a key that stands twice",
    27: "a wrong type, a missing field",
    28: "an empty document",
    29: "no final newline",
    30: "a truncated or damaged gz",
    31: "a truncated zst",
    32: "a bomb",
    33: "vision codes out of range, a wrong count",
    34: "an .npy of objects, or of a huge shape",
    35: "code from data",
    36: "a hostile chat template",
    37: "a changed tokenizer",
    38: "a changed config or version",
    39: "a changed or appended input",
    40: "an input that changes in the run",
    41: "two runs at once",
    42: "a stale lock",
    43: "a clock that goes back",
    44: "another locale, hash seed, number of workers",
    45: "rename on NFS and S3",
    46: "S3 that dies during an upload",
    47: "a loader on H hosts",
    48: "a loader resumed on other hosts",
    49: "the state of another dataset",
    50: "a loader whose worker is killed",
}

ELSEWHERE = {
    2: [
        "jobs/test_executors.py::test_the_jobs_of_a_worker_that_died_are_tried_again",
        "jobs/test_faults.py::test_a_worker_that_always_dies_ends_the_run_with_6",
    ],
    3: ["jobs/test_executors.py::test_lack_of_memory_or_disk_is_an_error_of_resources"],
    4: [
        "cli/test_endings.py::test_a_signal_at_any_moment_ends_the_run_with_its_code",
        "tokenize/test_tokenize.py::test_sigterm_ends_in_143_and_the_run_can_go_on",
        "jobs/test_faults.py::test_ctrl_c_ends_in_130_and_says_how_to_go_on",
    ],
    7: ["cli/test_endings.py::test_a_full_stdout_is_an_error_but_the_dataset_is_whole"],
    23: ["sources/test_lines.py::test_utf16_and_utf32_are_errors_of_the_file_with_the_fix"],
    24: ["sources/test_lines.py::test_memory_is_bounded_also_for_an_endless_line"],
    25: ["sources/test_lines.py::test_a_bad_line_is_an_error_of_that_line_with_its_reason"],
    30: ["sources/test_formats.py::test_damage_inside_a_gzip_file_is_an_input_error"],
    33: ["tokenize/test_lwm.py::test_bad_codes_are_errors_that_name_the_field"],
    34: ["sources/test_codes.py::test_an_npy_of_anything_but_codes_is_an_input_error"],
    35: ["encoders/test_vqgan.py::test_a_pickle_that_names_anything_else_is_refused_and_not_run"],
    36: [
        "documents/test_chat_templates.py::test_a_hostile_template_reaches_nothing_and_fills_no_memory",
        "documents/test_chat_templates.py::test_a_template_that_never_ends_is_stopped",
    ],
    41: ["tokenize/test_tokenize.py::test_a_second_run_at_the_same_time_exits_75"],
    45: [
        "jobs/test_buckets.py::test_of_two_that_make_different_datasets_one_ends_with_a_conflict",
        "jobs/test_buckets.py::test_two_that_make_the_same_dataset_both_succeed",
        "storage/test_objects.py::test_an_object_is_created_once_and_replaced_only_by_who_has_seen_it",
    ],
    46: [
        "jobs/test_buckets.py::test_a_line_that_is_cut_anywhere_loses_nothing",
        "jobs/test_buckets.py::test_a_killed_run_goes_on_on_another_machine",
        "storage/test_objects.py::test_a_cut_line_is_tried_again_then_a_resource_error",
    ],
    50: ["loaders/test_batch.py::test_an_error_surfaces_where_its_batch_is_taken"],
}


def rows_of(name: str) -> list[int]:
    """
    >>> rows_of("test_7_a_full_disk"), rows_of("test_23_28_29_lines"), rows_of("test_20_to_22_x")
    ([7], [23, 28, 29], [20, 21, 22])
    """
    if several := re.match(r"test_(\d+)_to_(\d+)_", name):
        return list(range(int(several[1]), int(several[2]) + 1))
    numbers = re.match(r"test((?:_\d+)+)_", name)
    return [int(number) for number in numbers[1].split("_")[1:]] if numbers else []


def named_by_row() -> dict[int, list[str]]:
    found = defaultdict(list)
    for path in sorted((TESTS / "faults").glob("test_*.py")):
        for name in sorted(names_in_file(path)):
            for row in rows_of(name):
                found[row].append(f"faults/{path.name}::{name}")
    for row, tests in ELSEWHERE.items():
        found[row] += tests
    return found


def test_there_are_fifty_faults() -> None:
    assert list(FAULTS) == list(range(1, 51))


@pytest.mark.parametrize("row", FAULTS)
def test_every_fault_has_a_test(row: int) -> None:
    assert named_by_row()[row], FAULTS[row]


def test_the_tests_of_the_table_exist() -> None:
    for row, tests in named_by_row().items():
        assert row in FAULTS
        for test in tests:
            assert exists(test), test
