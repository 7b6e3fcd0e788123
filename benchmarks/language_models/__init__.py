"""LoRA over a frozen base: odtc beside PyTorch with PEFT: `python -m benchmarks.language_models`.

Configurations are the real ones, weights random: each matrix is a whole number from -7 to 7 times a
power of two, so that a base of float32, float16, 8 or 4 bits holds the same values, and one run of
PyTorch is the reference of all. Adapters of rank 8 on queries and values start from one folder of
PEFT.

First the losses of odtc and PyTorch are compared over a few steps; a base whose losses differ is
not timed. Then all sides take turns, each in a process of its own that ends with its turn, so that
none has another's memory or caches, and what else the machine does falls on all alike. odtc is a
program in C on the native runtime. Its memory is all that the process has; of Python's processes
there is a number without what imports took, too.
"""

from odtc.torch_export.torchvision_anyway import import_torchvision_anyway

# transformers and PEFT import torchvision where it is installed.
import_torchvision_anyway()
