"""Commands on the catalogue of device families that the service brings along."""

import asyncio
from collections.abc import Mapping

import typer

from beamwright.kernel.value import replace

from .maintaining import opened
from .terminal import Data, DatabaseUrl, console, settings_of

catalogue = typer.Typer(help="The starter roles and device families.", no_args_is_help=True)


@catalogue.command("install")
def install_catalogue(data: Data = None, database_url: DatabaseUrl = None) -> None:
    """Define the starter roles and families that are missing; what exists is left as it is."""
    from beamwright.app import App

    settings = settings_of(data=data, database_url=database_url)

    async def install(dsn: str) -> Mapping[str, int]:
        # What is missing is to be counted here, not defined on the way.
        app = await App.open(replace(settings, seed_starter_families=False), dsn)
        try:
            return await app.install_catalogue(starter=True)
        finally:
            await app.close()

    with opened(data, database_url) as dsn:
        defined = asyncio.run(install(dsn))
    parts = [f"{count} {name.lower()}{'' if count == 1 else 's'}" for name, count in defined.items() if count]
    text = ", ".join(parts).replace("familys", "families")
    console().print(f"Defined {text}." if parts else "Everything was there already.")
