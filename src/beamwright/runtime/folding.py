"""Folded streams. Long ones are remembered, so that only what is new has to be read and folded again."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from beamwright.kernel.aggregate import Aggregate
from beamwright.kernel.registry import Registry
from beamwright.kernel.store import EventStore, Mark, Stream, StreamName

# Shorter ones are read whole in the time that it takes to ask.
LONG = 100
REMEMBERED = 500


class Loaded(NamedTuple):
    """A stream as it was read and folded."""

    version: int
    state: Any
    stream: Stream


class Folding:
    """What was committed does not change: a state of an earlier version is a true beginning for ever.

    It is no snapshot, which would be a second truth: it is gone with the process, and whether it is current is
    asked with every read, and again when something is appended.
    """

    def __init__(self, registry: Registry, store: EventStore) -> None:
        self._registry = registry
        self._store = store
        self._remembered: OrderedDict[StreamName, Loaded] = OrderedDict()

    async def load(self, names: Sequence[StreamName]) -> Mapping[StreamName, Loaded]:
        """Streams as they are now; one without events is absent."""
        known = {name: self._recalled(name) for name in names if name in self._remembered}
        new = await self._store.read(names, {name: loaded.version for name, loaded in known.items()})
        found = {name: self._joined(name, known.get(name), stream) for name, stream in new.items()}
        return {**known, **found}

    def _recalled(self, name: StreamName) -> Loaded:
        self._remembered.move_to_end(name)
        return self._remembered[name]

    def _joined(self, name: StreamName, known: Loaded | None, new: Stream) -> Loaded:
        aggregate = self._registry.aggregates[name[0]]
        loaded = _grown(aggregate, known, new) if known else Loaded(new.version, folded(aggregate, new), new)
        if loaded.version >= LONG:
            self._remember(name, loaded)
        return loaded

    def _remember(self, name: StreamName, loaded: Loaded) -> None:
        before = self._remembered.get(name)
        if before is None or before.version < loaded.version:
            self._remembered[name] = loaded._replace(stream=loaded.stream._replace(events=""))
        self._remembered.move_to_end(name)
        if len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)


def folded(aggregate: Aggregate[Any, Any], stream: Stream, state: Any = None) -> Any:
    return aggregate.fold(aggregate.stream_decoder.decode(stream.events), state)


def _grown(aggregate: Aggregate[Any, Any], known: Loaded, new: Stream) -> Loaded:
    before = known.stream
    # Of two transactions on a stream the later one may have the lower number.
    mark = Mark(*map(max, before.mark, new.mark))
    stream = before._replace(
        version=new.version, mark=mark, updated_at=max(before.updated_at, new.updated_at)
    )
    return Loaded(new.version, folded(aggregate, new, known.state), stream)
