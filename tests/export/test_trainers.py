"""What real trainers did wrong with our datasets, and the tests that show that they no longer do.

Tests of other projects' own code are skipped where that is not installed; beside each of them
stands one that always runs.
"""

from __future__ import annotations

import pytest

from support.named import exists

FINDINGS = {
    "F1 an all-ones attention mask switches off the detection of documents": [
        "loaders/test_hf.py::test_only_rows_of_one_document_have_an_attention_mask",
        "loaders/test_hf.py::test_transformers_finds_our_documents_and_padding_is_in_none",
        "loaders/test_hf.py::test_a_model_has_the_loss_of_the_documents_alone",
    ],
    "F2 the last token of a row is neither input nor label": [
        "loaders/test_hf.py::test_labels_are_the_targets_of_the_manifest",
    ],
    "F3 a tokenized dataset cannot be pickled": [
        "loaders/test_neighbours.py::test_a_dataset_goes_to_another_process_by_its_folder",
    ],
    "F4 it is known by its folder, so that grain refuses to resume after a move": [
        "loaders/test_neighbours.py::test_a_dataset_goes_to_another_process_by_its_folder",
        "loaders/test_neighbours.py::test_grain_reads_our_documents_and_resumes_where_they_have_moved",
    ],
    "F5 no iterator over the rows of this host": [
        "loaders/test_place.py::test_two_real_processes_have_the_batches_of_one",
    ],
    "F6 iter() goes on instead of starting anew": [
        "loaders/test_batch.py::test_every_loop_starts_over_but_the_one_after_a_state",
    ],
    "F7 orbax cannot save a loader": [
        "loaders/test_neighbours.py::test_a_loader_saves_and_loads_itself_as_orbax_asks",
        "loaders/test_neighbours.py::test_orbax_saves_a_loader_beside_a_model",
    ],
    "F8 positions of MaxText's targets are shifted": [
        "loaders/test_batch.py::test_views_name_shift_and_type_as_documented",
    ],
    "F9 LWM's pad: an input cell holds EOS where LWM has BOS": [
        "pack/test_pack.py::test_padded_rows_and_the_lwm_view_give_lwms_batches",
    ],
    "F10 tokenizers 1.0 is refused": [
        "engine/test_parsed.py::test_vocabulary_template_and_added_tokens_are_the_same",
        "engine/test_parsed.py::test_places_are_those_that_were_told_before",
    ],
    "F11 load_dataset takes the manifest for a dataset": [
        "look/test_readme.py::test_load_dataset_says_what_to_use_and_takes_no_manifest_for_data",
        "export/test_export.py::test_load_dataset_gives_records_or_an_error_and_never_the_manifest",
    ],
    "F12 nothing that is tokenized already can come in": [
        "documents/test_pretokenized.py::test_every_source_gives_the_same_documents",
        "sources/test_foreign.py::test_documents_are_the_same_however_a_file_is_cut",
        "export/test_round_trip.py::test_documents_come_back",
    ],
    "F13 torch's PackedBatches has no epochs and no state": [
        "loaders/test_torch.py::test_every_epoch_has_every_row_in_an_order_of_its_own",
        "loaders/test_torch.py::test_a_state_goes_on_after_any_item",
        "loaders/test_torch.py::test_the_trainer_of_transformers_trains_on_our_rows_in_our_order",
    ],
    "F14 whether the first token of a document has loss is not kept": [
        "pack/test_first_loss.py::test_each_document_has_the_loss_of_its_first_token_in_one_row",
        "loaders/test_batch.py::test_views_name_shift_and_type_as_documented",
    ],
    "datasets of different tokenizers are mixed without a word": [
        "loaders/test_mistakes.py::test_datasets_whose_ids_differ_cannot_be_mixed",
    ],
}


@pytest.mark.parametrize("finding", FINDINGS)
def test_every_finding_has_a_test(finding: str) -> None:
    missing = [test for test in FINDINGS[finding] if not exists(test)]
    assert not missing
