"""What the library says of its methods, in the words of the command line.

Whoever trains by `odtc train` has no trainer whose method could be called.
"""

SPOKEN = {
    "trainer.export_peft there, and trainer.load_adapters here": "--export-peft FOLDER there, and "
    "--load-adapters FOLDER here",
    "trainer.load_checkpoint, or --checkpoint with --adapter NAME; "
    "trainer.save_adapter(path, name) then writes one of them alone": "--checkpoint with --resume, "
    "and --adapter NAME for one of several",
    "trainer.load_checkpoint takes up all of it": "--checkpoint with --resume takes up all of it",
    "trainer.set_adapter before fit chooses": "--adapter NAME chooses",
    "trainer.set_adapter changes that": "--adapter NAME changes that",
    "load it with trainer.load_checkpoint, and add one to it with add_adapter; or switch to one "
    "that it has with set_adapter": "--adapter NAME takes one that it has, or adds a new one",
    "trainer.add_adapter(name) adds one": "--adapter NAME of a run adds one",
    "trainer.delete_adapter(name) leaves it out": "give a --checkpoint without it",
}
"""By what the library says."""


def spoken(text: str) -> str:
    """A message with what a user of the command line can do."""
    for method, option in SPOKEN.items():
        text = text.replace(method, option)
    return text
