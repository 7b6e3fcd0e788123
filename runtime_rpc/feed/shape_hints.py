"""Hints for an array of another shape than the step takes."""

Shape = tuple[int, ...]

# Channels of images, as Pillow calls them.
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def shape_hint(found: Shape, wanted: Shape, what: str) -> str:
    """The hint of an array that does not fit.

    Args:
        found: its shape.
        wanted: that of the step.
        what: `input` or `label`.
    """
    if len(found) == len(wanted) > 1 and sorted(found) == sorted(wanted):
        return f"its dimensions lie in another order: transpose it to {list(wanted)}"
    if found[1:] == wanted[1:] or found == wanted[1:]:
        return (
            "feed whole batches, as a DataLoader does with drop_last=True; or compile for another "
            "--batch"
        )
    if what == "label" and wanted == (*found, 1):
        return "give each number an axis of its own: y[:, None], or y.unsqueeze(1) of PyTorch"
    if what == "label" and found == wanted[:-1]:
        return (
            "the loss compares with a number for each score, such as np.eye(classes)[labels]; for "
            "class numbers compile with --loss cross-entropy"
        )
    if what == "input" and (said := _of_images(found, wanted)):
        return said
    return "give it the shape that the step takes, or compile for its sizes: --batch, --shape"


def _of_images(found: Shape, wanted: Shape) -> str:
    """How images become those of the step; empty where it takes none, or none were fed."""
    axis = next((at for at in (1, 3) if len(wanted) == 4 and wanted[at] in _MODES), None)
    if axis is None or len(found) not in (3, 4) or found[0] != wanted[0]:
        return ""
    height, width = (wanted[2], wanted[3]) if axis == 1 else (wanted[1], wanted[2])
    return (
        f"make images {width} wide and {height} high, of {wanted[axis]} channels, before they are "
        f"fed, as in a transform of the dataset: image.convert('{_MODES[wanted[axis]]}').resize(("
        f"{width}, {height})) of Pillow; or compile for their size: --shape"
    )
