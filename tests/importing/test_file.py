"""What a facility file may say: every fault at once, with line, path and a hint."""

import json
from pathlib import Path

import msgspec
import pytest
from jsonschema_rs import Draft202012Validator

import beamwright.importing
from beamwright.importing.checking import Paths, joined, split
from beamwright.importing.document import FaultyFileError, parse, plain
from beamwright.importing.schema import schema
from tests.importing.command import EXAMPLE, source

HEAD = "beamwright: 1\nfacility: {code: site}\n"

FAULTY = {
    "an unknown key": (
        "assets:\n  - name: A\n    tier: Unit\n    chidren: []\n",
        "6: assets[0].chidren: There is no key “chidren” here. Did you mean children?",
    ),
    "an unknown key of a port": (
        "assets:\n  - {name: A, tier: Unit, ports: [{name: p, direction: Input, signal_type: x, signl: y}]}\n",
        "4: assets[0].ports[0].signl: There is no key “signl” here. Did you mean signal_type?",
    ),
    "a wrong type": (
        "assets:\n  - name: A\n    tier: Unit\n    settings: [1]\n",
        "6: assets[0].settings: This must be a mapping of keys, not a list.",
    ),
    "a number for a name": (
        "enclosures:\n  - name: 7\n",
        "4: enclosures[0].name: This must be text, not 7.",
    ),
    "a value left out": (
        "assets:\n  - name:\n    tier: Unit\n",
        "4: assets[0].name: This must be text, not nothing.",
    ),
    "a key left out": ("assets:\n  - name: A\n", "4: assets[0]: “tier” is missing."),
    "an unknown tier": (
        "assets:\n  - name: A\n    tier: Unti\n",
        "5: assets[0].tier: “Unti” is none of Component, Device, Unit. Did you mean Unit?",
    ),
    "a rule of another kind": (
        "assets:\n  - name: A\n    tier: Unit\n    partition_rule: {kind: Affine, gain: x}\n",
        "6: assets[0].partition_rule.gain: This must be a number, not “x”.",
    ),
    "a model without families": (
        "models:\n  - {key: m, name: M, manufacturer: {name: W}, part_number: '1', families: []}\n",
        "4: models[0].families: This must not be empty.",
    ),
    "an id that is none": (
        "assets:\n  - name: A\n    tier: Unit\n    owners:\n      - {name: O, contact_actor_id: nobody}\n",
        "7: assets[0].owners[0].contact_actor_id: Invalid UUID.",
    ),
    "siblings of one name": (
        "assets:\n  - name: A\n    tier: Unit\n  - name: B\n    tier: Unit\n  - name: A\n    tier: Unit\n",
        "8: assets[2].name: “A” stands in line 4 already; names tell siblings apart.",
    ),
    "a port twice": (
        "assets:\n  - name: A\n    tier: Unit\n    ports:\n      - &p {}\n".replace(
            "&p {}", "{name: p, direction: Input, signal_type: x}"
        )
        + "      - {name: p, direction: Output, signal_type: x}\n",
        "8: assets[0].ports[1]: This stands in line 7 already.",
    ),
    "an enclosure twice": (
        "enclosures:\n  - name: Hutch\n  - name: HUTCH\n",
        "5: enclosures[1]: This stands in line 4 already.",
    ),
    "half an identifier of an owner": (
        "assets:\n  - name: A\n    tier: Unit\n    owners: [{name: O, identifier: x}]\n",
        "6: assets[0].owners[0]: Give the owner's identifier and its type together, or neither.",
    ),
    "a source whose two values are one": (
        "enclosures:\n  - name: H\n    permit_source: {source_kind: push, source_id: x, permitted_value: 0}\n",
        "5: enclosures[0].permit_source: One value cannot mean both;",
    ),
    "a schema that is open": (
        "families:\n  - name: F\n    affordances: []\n    settings_schema: {type: object}\n",
        "6: families[0].settings_schema:",
    ),
    "an area without a parent": ("", "2: facility: An Area has a parent, a Site has none."),
}


@pytest.mark.parametrize(("text", "told"), FAULTY.values(), ids=FAULTY)
def test_a_fault_is_told_with_line_and_path(text: str, told: str) -> None:
    head = HEAD if text else "beamwright: 1\nfacility: {code: site, kind: Area}\n"
    with pytest.raises(FaultyFileError) as refused:
        source(head + text)
    [fault] = refused.value.faults
    assert fault.sentence("f").startswith(f"f:{told}"), fault


def test_every_fault_is_told_at_once_in_the_order_of_lines() -> None:
    with pytest.raises(FaultyFileError) as refused:
        source("beamwright: 2\nfacility: {code: A B}\nassets:\n  - tier: Unit\nenclosures: 5\n")
    assert [fault.line for fault in refused.value.faults] == [1, 2, 4, 5]


def test_assets_nest_no_deeper_than_the_service_allows() -> None:
    deepest = "".join(
        f"{' ' * 4 * n}- name: A\n{' ' * 4 * n}  tier: Unit\n{' ' * 4 * n}  children:\n" for n in range(66)
    )
    with pytest.raises(FaultyFileError, match="1 faults") as refused:
        source(f"{HEAD}assets:\n{deepest}{' ' * 300}[]\n")
    assert "64 levels" in refused.value.faults[0].message


def test_text_is_trimmed_as_the_service_trims_it() -> None:
    [at] = source(f'{HEAD}assets:\n  - {{name: "  A ", tier: Unit}}\n').assets
    assert at.entry.name == "A"


def test_the_published_schema_is_the_one_that_is_checked() -> None:
    published = Path(beamwright.importing.__file__).with_name("schema.json")
    assert json.loads(published.read_text()) == json.loads(msgspec.json.encode(schema()))


def test_the_example_holds_to_the_published_schema() -> None:
    content = EXAMPLE.read_bytes()
    assert Draft202012Validator(schema()).is_valid(plain(parse(content)))
    assert len(source(content.decode()).assets) >= 55


TREE = f"""{HEAD}assets:
  - name: A
    tier: Unit
    children:
      - {{name: Motor, tier: Device}}
      - name: B
        tier: Component
        children:
          - {{name: Motor, tier: Device}}
          - {{name: X/Y slit, tier: Device}}
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("A/Motor", "A/Motor"),
        ("B/Motor", "A/B/Motor"),
        ("A/B/Motor", "A/B/Motor"),
        (r"X\/Y slit", r"A/B/X\/Y slit"),
        (" A / B ", "A/B"),
        ("C", None),
    ],
)
def test_a_path_is_whole_or_its_unique_end(path: str, found: str | None) -> None:
    at = Paths(source(TREE).assets).find(path)
    assert (at if at is None or isinstance(at, str) else at.path) == found


def test_an_end_that_several_paths_have_is_refused() -> None:
    assert "write more of the path" in str(Paths(source(TREE).assets).find("Motor"))


@pytest.mark.parametrize("names", [("A",), ("A", "B/C"), ("back\\slash", "\\/"), ("a", "b", "c")])
def test_a_path_can_be_split_again(names: tuple[str, ...]) -> None:
    assert split(joined(names)) == names
