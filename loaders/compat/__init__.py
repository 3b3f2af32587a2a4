"""Drop-ins: the data classes of other trainers, by their own names, over our loader.

    from dataprep.loaders.compat.lwm import DatasetFactory             # instead of lwm.data
    from dataprep.loaders.compat.xlstm import make_grain_iterator      # of xlstm_jax.dataset
    from dataprep.loaders.compat.maxtext import create_data_iterator   # of maxtext.input_pipeline

    lwm       datasets that give (batch, metrics), with state dicts: LWM's train.py runs on them
    maxtext   an iterator of this host's rows, with the state that MaxText's checkpoints ask for
    xlstm     multi-host iterators of LLMBatch
    trainscale  collate functions, wrappers of datasets, a builder of loaders of torch
    capibara  input_ids, attention_mask and labels as jnp arrays
    artifex   a registry of modalities, datasets with get_batch, processors of pixels and sounds

What they give equals what the trainer's own classes give, but where those are wrong: each module
says where. They read datasets that dataprep made: text is tokenized before, not here. TrainScale's
wrappers alone read records; the function that makes examples of them is the caller's.
"""
