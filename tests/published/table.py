"""All files, published and exported, as cases."""

import onnx

from tests.published.exports import EXPORTS, export_path
from tests.published.fetch import path_of
from tests.published.options import Case
from tests.published.packages import PACKAGES


def cases() -> list[Case]:
    """Those that are there, the shortest graphs first."""
    found = [
        Case(f"{package.name}: {_short(member)}", str(path_of(package, member)), options)
        for package in PACKAGES
        for member, options in package.models.items()
        if path_of(package, member).is_file()
    ]
    found += [
        Case(name, str(export_path(name)), options, _reference(name))
        for name, options in EXPORTS.items()
        if export_path(name).is_file()
    ]
    return sorted(found, key=_nodes)


def _reference(name: str) -> str:
    """PyTorch's own export of a module that `odtc.from_torch` wrote for training."""
    other = name.replace(" by from_torch", " by torch.onnx")
    return "" if other == name else str(export_path(other))


def options_of() -> dict[str, str]:
    """The options of each file, by its name, as the command line takes them."""
    known = {
        f"{package.name}: {_short(member)}": options.text()
        for package in PACKAGES
        for member, options in package.models.items()
    }
    return known | {name: options.text() for name, options in EXPORTS.items()}


def _short(member: str) -> str:
    """The file's name and that of its folder, which distinguishes two of the same name."""
    return "/".join(member.split("/")[-2:])


def _nodes(case: Case) -> int:
    """By how much there is to compile."""
    return len(onnx.load(case.path, load_external_data=False).graph.node)
