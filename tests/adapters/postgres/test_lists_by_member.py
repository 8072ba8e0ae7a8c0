"""A list filtered by the member of a collection is the same whether few objects have it or many."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.live import LiveServer

from beamwright.adapters.postgres import lists
from beamwright.kernel import wellknown

PROBE, CAMERA = (str(wellknown.seeded_family(number)) for number in (15, 4))
COUNT = 9


@pytest.fixture(scope="module")
def token(server: LiveServer, admin: httpx.Client) -> str:
    """Nine probes, three of which are cameras too; the mark that lists must have reached."""

    def register(**fields: Any) -> dict[str, Any]:
        made = admin.post("/assets", json=fields)
        assert made.status_code == 201, made.text
        return made.json()

    unit = register(name="Unit", tier="Unit", facility_code="home")["asset_id"]
    made: dict[str, Any] = {}
    for number in range(COUNT):
        made = register(
            name=f"Device {number % 4}",
            tier="Device",
            parent_id=unit,
            family_ids=[PROBE, CAMERA] if number % 3 == 0 else [PROBE],
            alternate_identifiers=[{"kind": "CONTROLSYS_PV", "value": f"BW:{number}"}],
        )
    return made["as_of"]


def pages(admin: httpx.Client, token: str, **asked: Any) -> Iterator[str]:
    cursor: dict[str, str] = {}
    for _ in range(COUNT + 1):
        page = admin.get("/assets", params={**asked, **cursor, "limit": 2, "consistent_with": token})
        assert page.status_code == 200, page.text
        yield from (each["id"] for each in page.json()["items"])
        if page.json()["next_cursor"] is None:
            return
        cursor = {"cursor": page.json()["next_cursor"]}
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize("sort", ["created_at", "-created_at", "name", "-name"])
@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({"family_id": PROBE}, 9),
        ({"family_id": CAMERA}, 3),
        ({"alternate_identifier": "CONTROLSYS_PV:BW:7"}, 1),
    ],
    ids=["everywhere", "some", "one"],
)
def test_looked_up_or_walked_the_pages_are_the_same(
    admin: httpx.Client,
    token: str,
    asked: dict[str, str],
    count: int,
    sort: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = list(pages(admin, token, **asked, sort=sort))
    monkeypatch.setattr(lists, "FEW", 1)
    walked = list(pages(admin, token, **asked, sort=sort))
    assert looked_up == walked
    assert len(set(looked_up)) == len(looked_up) == count
