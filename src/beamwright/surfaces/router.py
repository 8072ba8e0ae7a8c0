"""Finds the operation behind an address: a tree of path segments, literals before parameters."""

from collections.abc import Iterable, Mapping

from beamwright.kernel.operation import Operation


class _Node:
    """What may follow one segment, and the operations that end here."""

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.parameter: tuple[str, _Node] | None = None
        self.methods: dict[str, Operation] = {}


class Router:
    """Every operation's address; the same time for the first and the last of them."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root = _Node()
        for operation in operations:
            node = self._root
            for segment in operation.path.strip("/").split("/"):
                node = _child(node, segment)
            node.methods[operation.method] = operation

    def find(self, path: str) -> tuple[Mapping[str, Operation], dict[str, str]]:
        """The operations at `path` by method, and the values of its parameters; none where nothing is."""
        node, values = self._root, dict[str, str]()
        for segment in path.strip("/").split("/"):
            literal = node.literals.get(segment)
            if literal is not None:
                node = literal
            elif node.parameter is not None and segment:
                name, node = node.parameter
                values[name] = segment
            else:
                return {}, {}
        return node.methods, values


def _child(node: _Node, segment: str) -> _Node:
    if not segment.startswith("{"):
        return node.literals.setdefault(segment, _Node())
    if node.parameter is None:
        node.parameter = (segment[1:-1], _Node())
    assert node.parameter[0] == segment[1:-1], f"{segment} stands where {node.parameter[0]} stood"
    return node.parameter[1]
