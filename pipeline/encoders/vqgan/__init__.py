"""LWM's VQGAN turns a picture of 256x256 pixels into 16x16 codes, each 0..8191.

    checkpoint   LWM's pickled checkpoint -> a safetensors file; runs no code of the pickle
    weights      a safetensors file -> tensors by name: encoder.Conv_0.kernel f32[3, 3, 3, 128]
    network      those tensors and f32[n, 256, 256, 3] -> i32[n, 256], and back, as JAX functions
    encoder      `--encoder vqgan`: its settings, its device, its batches

jax is imported on the first call to an encoder, not before.
"""
