"""SQL files of the migrations: statements separated by a line of three dashes."""

from pathlib import Path

DIRECTORY = Path(__file__).parent


def statements(file: str) -> list[str]:
    return (DIRECTORY / "sql" / f"{file}.sql").read_text().split("\n---\n")
