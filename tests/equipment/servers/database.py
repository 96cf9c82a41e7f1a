"""What servers that store data have in common."""

import shutil
import subprocess
from collections.abc import Sequence
from typing import Self

from holdfast.lab.servers.process import ServerFailed, ServerProcess
from tests.equipment.servers.unprivileged import as_user, give_to_user

MAKING = 120.0
"""How long a busy machine may take to make the data, in seconds."""


class StoringServer(ServerProcess):
    """A server that keeps its data when it is restarted, or killed."""

    def restart(self) -> Self:
        """Stop it in order and start it on the same port."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """End it at once, for nothing of it is wanted any more, and remove its folders."""
        self.kill()
        super().close()


class DatabaseServer(StoringServer):
    """A server whose data lie in a temporary folder of its own: it refuses to run as root, so they
    may be another user's."""

    request_timeout = 30.0

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__()
        self.settings = settings
        self.data = self.folder / "data"
        give_to_user(self.folder)

    def making(self) -> Sequence[str]:
        """The command that makes its data."""
        raise NotImplementedError

    def start(self) -> Self:
        """Start it, and wait until it takes connections; the first time, make its data."""
        if not self.data.exists():
            self._make_data()
        return super().start()

    def _make_data(self) -> None:
        made = subprocess.run(
            [*as_user(), *self.making()],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=MAKING,
        )
        if made.returncode:
            shutil.rmtree(self.data, ignore_errors=True)
            raise ServerFailed(f"its data could not be made; its output:\n{made.stdout}")
