"""The app for iOS, as far as it can be tried without a compiler of Swift: as text.

A parser reads its files, and names that it uses of other files are looked for there.
"""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest

from benchmarks.models.digits import digits_model
from odtc.app import ios
from odtc.app.model import PROGRAM, WEIGHTS
from odtc.backends.targets import parse_target
from tests.needs import needs

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "ios"
SOURCES = sorted((EXAMPLE / "Sources").glob("*.swift"))
TRAINER = ios._SWIFT / "Trainer.swift"
NAMES = {
    "type": "DigitsModel",
    "name": "digits",
    "program": PROGRAM,
    "weights": WEIGHTS,
    "resources": f'.copy("{PROGRAM}")',
}
# What `odtc export-app` writes of Swift.
WRITTEN = {
    "the runtime's package": ios._RUNTIME_PACKAGE,
    "the model's package": ios._PACKAGE.format(**NAMES),
    "the model's type": ios._TYPE.format(**NAMES),
}
# The page's example, as its indented block; the first line is of no other block.
PAGE = (ROOT / "docs/howto/app.md").read_text()
(IN_PAGE,) = re.findall(r"\n\n(    import DigitsModel\n(?:(?: {4}.*)?\n)+)", PAGE)
TEXTS = WRITTEN | {path.name: path.read_text() for path in (*SOURCES, TRAINER)}
TEXTS |= {"the page": dedent(IN_PAGE)}
# Of functions in C, the ones that say what went wrong, and the trainer's end.
_ALWAYS = {"odtc_message", "odtc_close"}

with_parser = needs(find_spec("tree_sitter_swift"), reason="no grammar of Swift")


def assert_parses(text: str) -> None:
    """Raises an assertion with the first place where it is no Swift."""
    from tree_sitter import Language, Parser
    from tree_sitter_swift import language

    left = [Parser(Language(language())).parse(text.encode()).root_node]
    for node in left:
        assert node.type != "ERROR", node.start_point
        assert not node.is_missing, node.start_point
        left += node.children


@with_parser
@pytest.mark.parametrize("name", TEXTS)
def test_it_parses(name: str) -> None:
    assert_parses(TEXTS[name])


@with_parser
def test_what_is_no_swift_does_not_parse() -> None:
    for broken in ("func f() { if true { }", "let x = = 1", "func f( -> Int { 1 }"):
        with pytest.raises(AssertionError):
            assert_parses(broken)


def members(text: str) -> set[str]:
    """Names that a file offers to others."""
    before = r"^ *(?:@Published )?(?:public |private\(set\) )?(?:static )?"
    return set(re.findall(before + r"(?:func|var|let|enum) (\w+)", text, re.M))


def test_names_of_other_files_are_there() -> None:
    """Of types with methods of their own; those of Apple are not looked for."""
    sources = {path.stem: path.read_text() for path in SOURCES}
    offered = {name: members(text) for name, text in sources.items()}
    offered |= {"trainer": members(TRAINER.read_text()), "DigitsModel": members(ios._TYPE)}
    offered |= {"training": offered["Training"], "model": offered["TrainingModel"]}
    offered |= {"stop": {"isMade", "make"}}
    used = [
        (of, name)
        for text in sources.values()
        for of, name in re.findall(r"(?<![\w.@])(\w+)\.(\w+)", text)
        if of in offered and name != "self"
    ]
    assert len(used) > 20
    assert {(of, name) for of, name in used if name not in offered[of]} == set()
    assert members(ios._TYPE) == {"program", "weights", "trainer"}


def test_the_page_calls_what_the_trainer_has() -> None:
    called = set(re.findall(r"trainer\.(\w+)", IN_PAGE))
    assert called == {"write", "step", "save"}
    assert called <= members(TRAINER.read_text())


def test_it_comes_down_to_what_the_example_in_c_is_killed_with() -> None:
    """Of the trainer it uses methods whose functions in C `examples/linux` calls, too."""
    text = TRAINER.read_text()
    methods = re.split(r"\n  (?:public |private )?(?:func|var|init|deinit)\b", text)
    calls = {
        name[1]: set(re.findall(r"\bodtc_[a-z]+(?=\()", method))
        for method in methods
        if (name := re.match(r" (\w+)", method))
    }
    used = set(re.findall(r"trainer\.(\w+)", "".join(path.read_text() for path in SOURCES)))
    used -= {"self"}
    assert used == {"tensor", "step", "steps", "save", "load"}
    in_c = set(re.findall(r"\bodtc_[a-z]+(?=\()", (ROOT / "examples/linux/train.c").read_text()))
    assert set().union(*(calls[name] for name in used)) | _ALWAYS <= in_c


def test_the_project_agrees_with_the_sources_and_the_packages() -> None:
    project = (EXAMPLE / "project.yml").read_text()
    (permitted,) = re.findall(r"BGTaskSchedulerPermittedIdentifiers: \[(.*)\]", project)
    assert f'identifier = "{permitted}"' in TEXTS["NightlyTraining.swift"]
    assert "UIBackgroundModes: [processing]" in project
    products = dict(re.findall(r"- package: (\w+)\n +product: (\w+)", project))
    packages = {
        name: re.findall(r'\.library\(name: "(\w+)"', text)
        for text in (WRITTEN["the runtime's package"], WRITTEN["the model's package"])
        for name in re.findall(r'let package = Package\(\n  name: "(\w+)"', text)
    }
    assert {name: [product] for name, product in products.items()} == packages
    assert re.findall(r"path: packages/(\w+)", project) == list(packages)
    for text in WRITTEN.values():
        assert "platforms: [.iOS(.v15)]" in text or "import PackageDescription" not in text
    assert 'deploymentTarget: "15.0"' in project


def test_the_store_takes_the_project() -> None:
    """It is installed where its kernels run, has an icon's entry, and turns on an iPad."""
    project = (EXAMPLE / "project.yml").read_text()
    (capabilities,) = re.findall(r"UIRequiredDeviceCapabilities: \[(.*)\]", project)
    (core,) = re.findall(r"apple-(\w+)", parse_target("ios-cpu").mcpu or "")
    assert capabilities == f"arm64, iphone-ipad-minimum-performance-{core}"
    (icon,) = re.findall(r"ASSETCATALOG_COMPILER_APPICON_NAME: (\w+)", project)
    catalog = EXAMPLE / "Sources/Assets.xcassets"
    for path in (catalog / "Contents.json", catalog / f"{icon}.appiconset/Contents.json"):
        assert json.loads(path.read_text())["info"] == {"author": "xcode", "version": 1}
    _, _, on_pad = project.partition("UISupportedInterfaceOrientations~ipad:")
    assert len(re.findall(r"^ +- UIInterfaceOrientation", on_pad, re.M)) == 4


def test_tensors_are_those_of_the_model() -> None:
    names = re.findall(r'tensor\("(\w+)"\)', TEXTS["Training.swift"])
    assert names == [digits_model().graph.input[0].name, "label"]
