"""How wide a text is, by the widths of DejaVu Sans.

A picture does not bring a font, and a viewer takes its own. DejaVu is the widest of the usual ones
(Helvetica, Arial, Roboto and Segoe take about nine tenths of it), so what ends within a picture by
these widths ends there in all of them.
"""

# Thousandths of the size, from the blank to the tilde.
_WIDTHS = (
    *(318, 401, 460, 838, 637, 951, 780, 275, 391, 391, 500, 838, 318, 361, 318, 337, 637, 637),
    *(637, 637, 637, 637, 637, 637, 637, 637, 337, 337, 838, 838, 838, 531, 1000, 685, 687, 699),
    *(771, 632, 576, 775, 752, 295, 295, 656, 558, 863, 749, 788, 604, 788, 695, 635, 611, 732),
    *(685, 989, 686, 611, 686, 391, 337, 391, 838, 500, 500, 613, 635, 550, 635, 616, 353, 635),
    *(634, 278, 278, 580, 278, 975, 634, 612, 635, 635, 412, 521, 393, 634, 592, 818, 592, 592),
    *(525, 637, 337, 637, 838),
)
_FIRST, _OTHER = 32, 1000
# A bold letter is wider.
_BOLD = 1.12


def width(text: str, size: float, *, bold: bool = False) -> float:
    """How wide a text is, in the unit of its size."""
    codes = (ord(letter) - _FIRST for letter in text)
    thousandths = sum(_WIDTHS[n] if 0 <= n < len(_WIDTHS) else _OTHER for n in codes)
    return thousandths * size / 1000 * (_BOLD if bold else 1)


def wrapped(text: str, size: float, room: float, *, bold: bool = False) -> list[str]:
    """The lines of a text, each within `room`; a word that is wider is cut into parts."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if width(longer, size, bold=bold) <= room:
            line = longer
            continue
        lines += [line] if line else []
        *parts, line = _cut(word, size, room, bold)
        lines += parts
    return [*lines, line] if line else lines


def _cut(word: str, size: float, room: float, bold: bool) -> list[str]:
    """Parts of a word that are within `room`; one letter at least."""
    parts = [""]
    for letter in word:
        if parts[-1] and width(parts[-1] + letter, size, bold=bold) > room:
            parts.append("")
        parts[-1] += letter
    return parts
