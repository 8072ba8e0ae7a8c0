"""Pages a person reads: the description of the interface, and the metadata of the protected resource."""

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from litestar import Response, get

from beamwright.kernel.value import encode
from beamwright.settings import Settings

ASSETS = files("beamwright.surfaces") / "assets"
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
# Everything a page needs is packaged; nothing may be loaded from elsewhere.
POLICY = (
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)


def documents(description: Callable[[], bytes], settings: Settings) -> list[Any]:
    @get("/docs/openapi.json", sync_to_thread=False)
    def openapi() -> Response[bytes]:
        return Response(description(), media_type="application/json")

    @get("/.well-known/oauth-protected-resource", sync_to_thread=False)
    def resource() -> Response[bytes]:
        return Response(encode(metadata(settings, "")), media_type="application/json")

    @get("/.well-known/oauth-protected-resource/mcp", sync_to_thread=False)
    def mcp_resource() -> Response[bytes]:
        return Response(encode(metadata(settings, "/mcp")), media_type="application/json")

    return [openapi, resource, mcp_resource, *(_asset(path, name) for path, name in _pages())]


def metadata(settings: Settings, path: str) -> dict[str, Any]:
    """RFC 9728; built from the configured address, never from a forwarded header."""
    return {
        "resource": settings.base_url + path,
        "authorization_servers": [
            provider.issuer
            for provider in settings.identity_providers
            if provider.issuer.startswith("https://")
        ],
        "bearer_methods_supported": ["header"],
        "resource_name": "Beamwright",
        "resource_documentation": f"{settings.base_url}/docs",
    }


def _pages() -> list[tuple[str, str]]:
    names = sorted(entry.name for entry in ASSETS.iterdir() if entry.name.rpartition(".")[2] in TYPES)
    return [("/docs", "docs.html"), *((f"/docs/{name}", name) for name in names if name != "docs.html")]


def _asset(path: str, name: str) -> Any:
    content = (ASSETS / name).read_bytes()
    media_type = TYPES[name.rpartition(".")[2]]

    @get(path, sync_to_thread=False, name=f"asset {name}")
    def page() -> Response[bytes]:
        headers = {"content-security-policy": POLICY, "x-content-type-options": "nosniff"}
        return Response(content, media_type=media_type, headers=headers)

    return page
