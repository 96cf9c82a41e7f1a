"""What ties a user's own writes to etcd to a lease: a comparison for their transactions."""

from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.engines.etcd.commands import place_of, same_place
from holdfast.engines.etcd.registry import Claim


class Comparison(NamedTuple):
    """Holds for as long as the lease does: the holder's key is there, and it is the same key.

    A transaction with this comparison is carried out while the lock is held, or not at all: the
    cluster decides, so neither a clock nor a pause can come between.

    >>> Comparison(b"k", 7).as_json()
    {'key': 'aw==', 'target': 'CREATE', 'result': 'EQUAL', 'create_revision': '7'}
    """

    key: bytes
    create_revision: int

    def as_bytes(self) -> bytes:
        """A message `etcdserverpb.Compare`, encoded, for any client that uses gRPC."""
        encoded: bytes = same_place(self.key, self.create_revision).SerializeToString()
        return encoded

    def as_json(self) -> dict[str, str]:
        """The same, for the JSON gateway."""
        return {
            "key": b64encode(self.key).decode(),
            "target": "CREATE",
            "result": "EQUAL",
            "create_revision": str(self.create_revision),
        }


def compare(claims: Mapping[str, Claim], key: str, holder: str, fence: int) -> Comparison:
    """The comparison for a lease: its name with the client's prefix, its holder, and its fence."""
    claim = claims.get(holder)
    return Comparison(place_of(key, holder) if claim is None else claim.place, fence)
