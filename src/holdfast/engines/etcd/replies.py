"""What etcd says that is not an answer, told apart by what is to be done about it."""

from math import inf
from typing import Any, NamedTuple

import grpc

NO_SUCH_LEASE = grpc.StatusCode.NOT_FOUND
LEASE_EXISTS = grpc.StatusCode.FAILED_PRECONDITION
NEEDS_LOGIN = grpc.StatusCode.UNAUTHENTICATED
SERVER = "etcdserver: "
OLD_LOGIN = "revision of auth store is old"

_NO_ANSWER = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
}


_FOR_GOOD = {
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.INVALID_ARGUMENT,  # a wrong password, among others
    grpc.StatusCode.FAILED_PRECONDITION,  # a login where there are no users
    grpc.StatusCode.UNIMPLEMENTED,
}
"""Refusals that waiting does not change."""


class Refused(NamedTuple):
    """The server has understood, and said no."""

    code: Any
    why: str

    @property
    def error(self) -> "Rejected":
        """For where that was not to be expected."""
        return Rejected(self.why, inf if self.code in _FOR_GOOD else None)

    @property
    def wants_login(self) -> bool:
        """Whether it would be another answer after a login."""
        return self.code is NEEDS_LOGIN or OLD_LOGIN in self.why


class Trouble(Exception):
    """No answer can be had from this endpoint; another one may have it."""

    def __init__(self, why: str, *, passing: bool = False) -> None:
        super().__init__(why)
        self.passing = passing
        """Whether a member has said so itself, as it does while a leader is being elected: it is
        worth asking again in a moment."""


class Rejected(Exception):
    """What was asked for is refused, and would be by any endpoint."""

    def __init__(self, why: str, heals_in: float | None = None) -> None:
        super().__init__(why)
        self.heals_in = heals_in


def judge(error: grpc.RpcError) -> Refused:
    """What an error of a call means: a refusal is returned, trouble is raised."""
    call: Any = error
    code, said = call.code(), str(call.details() or call.code().name)
    why = said.removeprefix(SERVER)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        raise Trouble("did not answer in time") from None
    if code in _NO_ANSWER:
        raise Trouble(why, passing=said.startswith(SERVER)) from None
    return Refused(code, why)


def accepted(reply: Any) -> Any:
    """The answer; a refusal that nobody has foreseen is raised."""
    if isinstance(reply, Refused):
        raise reply.error
    return reply
