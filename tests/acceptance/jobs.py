"""Runs whose work is a compute job: a small program that waits, works or fails as its parameters say."""

import sys
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.acceptance.stage import Stage, done
from tests.acceptance.things import Things, schema

PROGRAM = """
import argparse, pathlib, sys, time, urllib.parse

options = argparse.ArgumentParser()
options.add_argument("folder")
options.add_argument("--name")
options.add_argument("--mode")
options.add_argument("--out")
given = options.parse_args()
folder = pathlib.Path(given.folder)
with open(folder / given.name, "a") as trace:
    trace.write("once\\n")
if given.mode == "waits":
    deadline = time.monotonic() + 120
    while not (folder / f"{given.name}.go").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
if given.mode == "fails":
    sys.exit("the rotation centre was not found")
if given.out and given.mode != "idle":
    pathlib.Path(urllib.parse.urlsplit(given.out).path).write_text("a volume")
(folder / f"{given.name}.over").touch()
"""
PARAMETERS = schema(name={"type": "string"}, mode={"type": "string"})


class Job:
    """A run, and the program that is its work."""

    def __init__(self, lab: "Lab", mode: str) -> None:
        self.lab = lab
        self.name = uuid4().hex
        parameters = {"name": self.name, "mode": mode}
        self.run_id = lab.things.run(lab.plan, override_parameters=parameters)
        self.output_uri = (lab.folder / f"{self.name}.h5").as_uri()

    @property
    def path(self) -> str:
        return f"/runs/{self.run_id}"

    def conduct(self, **fields: Any) -> httpx.Response:
        return self.lab.admin.post(f"{self.path}/conduct", **fields)

    def post(self, verb: str, **fields: Any) -> None:
        done(self.lab.admin.post(f"{self.path}/{verb}", **fields))

    @property
    def run(self) -> dict[str, Any]:
        return done(self.lab.admin.get(self.path))

    @property
    def conducts(self) -> list[dict[str, Any]]:
        return done(self.lab.admin.get(f"{self.path}/conducts"))["items"]

    @property
    def executions(self) -> int:
        trace = self.lab.folder / self.name
        return trace.read_text().count("once") if trace.exists() else 0

    def started(self) -> "Job":
        """Reserved, submitted and at work."""
        done(self.conduct())
        self.until(lambda: self.executions == 1)
        return self

    def go(self) -> None:
        """Let a program end that waits."""
        (self.lab.folder / f"{self.name}.go").touch()

    def over(self) -> None:
        """Wait until the program itself is through, whoever noticed."""
        self.until((self.lab.folder / f"{self.name}.over").exists)

    def ended(self) -> dict[str, Any]:
        """The conduct, once its end is recorded."""
        self.until(lambda: all(each["ended_at"] for each in self.conducts))
        return self.conducts[-1]

    def until(self, holds: Callable[[], bool], within: float = 60) -> None:
        deadline = time.monotonic() + within
        while not holds():
            assert time.monotonic() < deadline, (
                f"it did not come to that: {self.run['status']} {self.conducts}"
            )
            time.sleep(0.05)

    @property
    def events(self) -> list[str]:
        return self.lab.stage.event_types(self.run_id)


class Lab:
    """An installation whose plan is worked off by that program."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.folder = folder
        self.move(stage)

    def move(self, stage: Stage) -> None:
        """The same installation, served by another process."""
        self.stage = stage
        self.admin = stage.admin
        self.things = Things(stage)

    @cached_property
    def method(self) -> str:
        capability = self.things.capability(parameters_schema=PARAMETERS)
        method = self.things.method(capability, parameters_schema=PARAMETERS)
        self.launch_by(method, self.launch_spec)
        return method

    @property
    def launch_spec(self) -> dict[str, Any]:
        program = self.folder / "program.py"
        program.write_text(PROGRAM)
        return {
            "base_command": [sys.executable, str(program), str(self.folder)],
            "args": [
                {"name": "name", "flag": "--name", "required": True},
                {"name": "mode", "flag": "--mode"},
            ],
            "output_arg": "--out",
        }

    def launch_by(self, method: str, spec: dict[str, Any] | None) -> None:
        done(self.admin.post(f"/methods/{method}/update-launch-spec", launch_spec=spec))

    @cached_property
    def plan(self) -> str:
        return self.things.plan(practice_id=self.things.practice(self.method))

    def job(self, mode: str = "works") -> Job:
        return Job(self, mode)
