"""Pages a person reads: the description of the interface, and the metadata of the protected resource."""

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from litestar import MediaType, Request, Response, get
from litestar.response import Redirect

from beamwright.kernel.value import encode
from beamwright.settings import Settings

ASSETS = files("beamwright.surfaces") / "assets"
PAGE = "docs.html"
TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# Everything a page needs is packaged; nothing may be loaded from elsewhere, and no text becomes markup.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # After an upgrade the page and its parts must come from one release.
    "cache-control": "no-cache",
}


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

    return [_page(), openapi, resource, mcp_resource, *(_asset(name) for name in _asset_names())]


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


def _asset_names() -> list[str]:
    return sorted(entry.name for entry in ASSETS.iterdir() if entry.name.rpartition(".")[2] in TYPES)


def _page() -> Any:
    content = (ASSETS / PAGE).read_bytes()

    @get("/docs", sync_to_thread=False, name="docs")
    def page(request: Request[Any, Any, Any]) -> Response[Any]:
        # The page names its parts relative to itself, so that it also works below a path of a proxy.
        if request.scope["raw_path"].partition(b"?")[0].endswith(b"/"):
            return Redirect("../docs")
        return Response(content, media_type=MediaType.HTML, headers=HEADERS)

    return page


def _asset(name: str) -> Any:
    content = (ASSETS / name).read_bytes()
    media_type = TYPES[name.rpartition(".")[2]]

    @get(f"/docs/{name}", sync_to_thread=False, name=f"docs {name}")
    def asset() -> Response[bytes]:
        return Response(content, media_type=media_type, headers=HEADERS)

    return asset
