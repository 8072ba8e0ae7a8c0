"""Commands of the README and of guides, run as they stand there, print what the page says they print."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from tests.live import free_port
from tests.surfaces.test_cli import PATIENCE, Installation, environment

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"```(sh|text|python)\n(.*?)```", re.DOTALL)
LATER = "## How it is laid out"
NEXT = "@@@"
# What differs from one installation to the next; the ids of seeds do not.
UUID = re.compile(r"(?!01900000)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
MARK = re.compile(r"(?<=[\"':])[0-9a-f]+\.[0-9a-f]+(?=[\"'e])")


class Step(NamedTuple):
    """A block of commands, and what stands below it."""

    commands: str
    output: str


def steps(*pages: str) -> list[Step]:
    """Every block of pages that go on with one another; a program becomes the file that the page calls it."""
    found: list[Step] = []
    for page in pages:
        program = ""
        for kind, text in FENCE.findall(page):
            if kind == "python":
                [name] = re.findall(r"Save this as `(.*?)`:", page)
                program = f"cat > {name} <<'END'\n{text}END\n"
            elif kind == "sh":
                found.append(Step(program + text, ""))
                program = ""
            else:
                found[-1] = found[-1]._replace(output=text)
    return found


def first_five_minutes() -> str:
    """Up to where the page turns to those who change the service."""
    page = (ROOT / "README.md").read_text()
    return page.partition("## The first five minutes")[2].partition(LATER)[0]


def guides(*names: str) -> list[str]:
    return [(ROOT / "docs" / "how-to" / f"{name}.md").read_text() for name in names]


def plain(text: str) -> str:
    """Without what differs, and without the line breaks that only the page has."""
    text = "".join(text.split())
    for differing, name in ((UUID, "ID"), (TIME, "TIME"), (MARK, "MARK")):
        text = differing.sub(name, text)
    return text


@pytest.fixture
def place() -> Iterator[Installation]:
    with TemporaryDirectory(prefix="beamwright-readme-", ignore_cleanup_errors=True) as folder:
        installation = Installation(Path(folder)).start()
        yield installation
        installation.stop()


RUN = "plan-and-record-a-run"
CHAINS = {
    "README": [first_five_minutes()],
    "data": guides(RUN, "track-and-clear-a-sample", "keep-calibrations", "register-data"),
    "procedures": guides(RUN, "drive-a-procedure"),
}


@pytest.mark.parametrize("pages", CHAINS.values(), ids=CHAINS)
def test_every_command_prints_what_the_page_says(place: Installation, pages: list[str]) -> None:
    folder, known = place.data.parent, steps(*pages)
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / ".venv").symlink_to(Path(sys.prefix))
    script = f"\necho {NEXT}\n".join(step.commands for step in known)
    script = script.replace(":8000", f":{place.port}").replace("8099", str(free_port()))
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment(**place.where),
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split(NEXT)
    assert len(printed) == len(known) > 8, done.stdout
    for step, output in zip(known, printed, strict=True):
        rest = plain(output)
        for expected in filter(None, map(plain, step.output.split("…"))):
            assert expected in rest, f"{step.commands}\nprinted\n{output}\n{done.stderr}"
            rest = rest.partition(expected)[2]
