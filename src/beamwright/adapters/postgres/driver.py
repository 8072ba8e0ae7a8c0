"""asyncpg with types: the driver ships none, so what is used of it is written down here once."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, cast

import asyncpg


class Row(Protocol):
    """One row, by column name or number."""

    def __getitem__(self, column: str | int) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...


class Connection(Protocol):
    """One connection."""

    async def fetch(self, query: str, *arguments: Any) -> list[Row]: ...
    async def fetchrow(self, query: str, *arguments: Any) -> Row | None: ...
    async def fetchval(self, query: str, *arguments: Any) -> Any: ...
    async def execute(self, query: str, *arguments: Any) -> str: ...
    async def executemany(self, query: str, arguments: Iterable[Sequence[Any]]) -> None: ...
    async def copy_records_to_table(
        self,
        table: str,
        *,
        records: Iterable[Sequence[Any]],
        columns: Sequence[str],
        schema_name: str | None = None,
    ) -> str: ...
    async def copy_to_table(
        self, table: str, *, source: AsyncIterator[bytes], columns: Sequence[str], format: str
    ) -> str: ...
    async def copy_from_query(
        self, query: str, *arguments: Any, output: Callable[[bytes], Awaitable[None]], format: str
    ) -> str: ...
    def transaction(
        self, *, isolation: str | None = None, readonly: bool = False
    ) -> AbstractAsyncContextManager[None]: ...
    def cursor(self, query: str, *arguments: Any, prefetch: int | None = None) -> AsyncIterator[Row]: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...


class Pool(Protocol):
    """A bounded set of connections."""

    def acquire(self, *, timeout: float | None = None) -> AbstractAsyncContextManager[Connection]: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...


async def connect(dsn: str, **options: Any) -> Connection:
    return cast(Connection, await cast(Any, asyncpg).connect(dsn, **options))


async def create_pool(dsn: str, **options: Any) -> Pool:
    return cast(Pool, await cast(Any, asyncpg).create_pool(dsn, **options))
