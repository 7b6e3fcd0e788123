"""Hints for an array of another shape than the step takes."""

Shape = tuple[int, ...]


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
    return "give it the shape that the step takes, or compile for its sizes: --batch, --shape"
