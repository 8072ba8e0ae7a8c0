"""JSON merge patches (RFC 7396): null deletes, objects merge, all else replaces."""

from collections.abc import Mapping
from typing import Any, cast


def merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`target` after `patch`, as a new value; neither is changed, and what the patch leaves alone is shared."""
    result = dict(target)
    pending = [(result, patch)]
    while pending:
        into, changes = pending.pop()
        for name, change in changes.items():
            if change is None:
                into.pop(name, None)
            elif isinstance(change, Mapping):
                into[name] = _object(into.get(name))
                pending.append((into[name], cast(Mapping[str, Any], change)))
            else:
                into[name] = change
    return result


def _object(current: Any) -> dict[str, Any]:
    """A copy of an object; what is none gives way to an empty one, so that nulls of the patch vanish."""
    return dict(cast(Mapping[str, Any], current)) if isinstance(current, Mapping) else {}
