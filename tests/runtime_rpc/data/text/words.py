"""A tokenizer of words, with tokens for the beginning and the end of a text."""

from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ["<s>", "</s>", "?", "the", "cat", "sat", "on", "mat", "a", "dog", "ran"]


def write_tokenizer(path: Path) -> Path:
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="?")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    # What other programs left in the file is not followed.
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(path))
    return path
