"""Secrets in the environment of the process."""

from collections.abc import Mapping

from beamwright.kernel.secret_store import SecretStoreUnavailableError


class EnvironmentSecrets:
    """`env:NAME`, where the name begins as the operator said: other variables are none of a caller's business."""

    def __init__(self, environment: Mapping[str, str], prefix: str) -> None:
        self._environment = environment
        self._prefix = prefix

    async def read(self, secret_ref: str) -> bytes:
        name = secret_ref.removeprefix("env:")
        if not name.startswith(self._prefix) or not self._environment.get(name):
            raise SecretStoreUnavailableError(
                f"The environment has no such secret; set a variable that begins with {self._prefix}.",
                scheme="env",
            )
        return self._environment[name].encode()
