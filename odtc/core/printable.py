"""Text as a terminal may get it: names come from files that nobody vouches for.

A name may hold escapes that move the cursor, colour what follows or hide a line, line breaks that
make up lines of their own, marks that turn the order of letters, or halves of characters that no
encoding can write. Each such character is shown as its escape, as Python has it.
"""


def printable(text: str) -> str:
    """The text in one line, with an escape in place of each character that is not printable.

    What is printable already is left as it is, so that doing it twice changes nothing.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """The same of a text whose line breaks are meant."""
    return "\n".join(map(printable, text.split("\n")))


def counted(count: int, one: str, many: str) -> str:
    """A number and what there are so many of: `1 row is`, `2 rows are`."""
    return f"{count} {one if count == 1 else many}"


_SPOKEN_AS_VOWELS = ("a", "e", "i", "o", "u", "nd")


def with_article(noun: str) -> str:
    """A noun after its article, by its first letters: `a number`, `an array`, `an ndarray`."""
    return f"{'an' if noun.lower().startswith(_SPOKEN_AS_VOWELS) else 'a'} {noun}"
