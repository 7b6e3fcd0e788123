"""LoRA over a frozen base on a GPU, beside PyTorch with PEFT on the same one.

    python -m benchmarks.gpu.language_models.prepare FOLDER --models smollm2_135m --tokens 256
    python -m benchmarks.gpu.language_models.run FOLDER

As with `benchmarks.gpu`, the first wants odtc, the second a GPU. Models, weights, adapters and
bases are those of `benchmarks.language_models`: each base holds the same values, and PyTorch in
float32 (without TF32, scaled-dot-product attention) is the reference of all. Both sides begin with
the same adapters of PEFT's, and update them by AdamW.
"""
