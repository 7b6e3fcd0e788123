"""Training steps of a CPU beside PyTorch's, by the number of threads.

    python -m benchmarks.cores.prepare FOLDER --mcpu sapphirerapids --threads 1,2,4,8
    python -m benchmarks.cores.run FOLDER
    python -m benchmarks.cores.figures cores.json

The first wants odtc, and compiles for a CPU that is named. The second wants that CPU with the cores
for all threads, PyTorch with torchvision and transformers for the modules, and numpy; it may be
another machine. Both sides train the same module from the same weights on the same batch, in
float32, by plain SGD.
"""
