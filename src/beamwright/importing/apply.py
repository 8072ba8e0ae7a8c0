"""Carrying out a plan: many commands at once, each after those that it relies on."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from beamwright.surfaces.calling import RefusedError, operation

from .calls import Calls
from .plan import Phase, Plan, Step, resolved

AT_ONCE = 16
# After so many refusals something is wrong with more than an entry.
MOST_REFUSALS = 20
NOT_ALLOWED = (401, 403)


class Refusal(NamedTuple):
    """A command that the service refused, and its problem document."""

    step: Step
    problem: Mapping[str, Any]

    def sentence(self) -> str:
        subject = self.step.subject
        what = f"{self.problem.get('detail') or self.problem.get('title')} ({self.problem.get('code', 'no code')})"
        return f"{subject.kind} {subject.path}: {self.step.operation}: {what}"


class Outcome(NamedTuple):
    """What became of a plan; whatever was not done is done by the next import of the same file."""

    done: int
    refusals: Sequence[Refusal]
    # Steps that were not tried, because something they rely on was refused or the import was given up.
    skipped: int


class Applying:
    """Runs steps phase by phase, and within a phase as soon as what they rely on is done."""

    def __init__(self, plan: Plan, calls: Calls, progress: Callable[[], object]) -> None:
        self._steps = plan.steps
        self._calls = calls
        self._progress = progress
        self._ids: dict[int, str] = {}
        self._done: set[int] = set()
        self._refusals: list[Refusal] = []

    def run(self) -> Outcome:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for phase in Phase:
                    self._run([step for step in self._steps if step.phase is phase], pool)
            finally:
                # What has not begun is not begun any more, whatever ends this.
                pool.shutdown(wait=False, cancel_futures=True)
        skipped = len(self._steps) - len(self._done) - len(self._refusals)
        return Outcome(len(self._done), self._refusals, skipped)

    def _run(self, steps: Sequence[Step], pool: ThreadPoolExecutor) -> None:
        here = {step.number for step in steps}
        missing = {step.number: {n for n in step.after if n not in self._done} for step in steps}
        waiting: dict[int, list[Step]] = {}
        for step in steps:
            for number in missing[step.number] & here:
                waiting.setdefault(number, []).append(step)
        ready = deque(step for step in steps if not missing[step.number])
        running: dict[Future[dict[str, Any]], Step] = {}
        while running or (ready and not self._hopeless):
            while ready and len(running) < AT_ONCE and not self._hopeless:
                step = ready.popleft()
                running[pool.submit(self._send, step)] = step
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                step = running.pop(future)
                if not self._finished(step, future):
                    continue
                for other in waiting.get(step.number, ()):
                    missing[other.number].discard(step.number)
                    if not missing[other.number]:
                        ready.append(other)

    @property
    def _hopeless(self) -> bool:
        return len(self._refusals) >= MOST_REFUSALS or any(
            refusal.problem.get("status") in NOT_ALLOWED for refusal in self._refusals
        )

    def _send(self, step: Step) -> dict[str, Any]:
        return self._calls.command(step.operation, resolved(step.fields, self._ids), step.standing)

    def _finished(self, step: Step, future: Future[dict[str, Any]]) -> bool:
        """Whether the step was carried out; a service that is gone ends the import."""
        self._progress()
        try:
            answer = future.result()
        except RefusedError as refusal:
            self._refusals.append(Refusal(step, refusal.problem))
            return False
        self._ids[step.number] = answer[operation(step.operation).id_field]
        self._done.add(step.number)
        return True


def apply(plan: Plan, calls: Calls, progress: Callable[[], object] = lambda: None) -> Outcome:
    """Carry out a plan; raises UnreachableError when the service goes away for longer than calls are repeated."""
    return Applying(plan, calls, progress).run()
