# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers refuse. Each line names the error that it must give, once for mypy and once
for pyright; one that it does not give is an error itself. Checked by `make lint`, never run."""

import holdfast
from holdfast import (  # type: ignore[attr-defined]
    AsyncClient,
    Cell,
    Client,
    Nope,  # pyright: ignore[reportAttributeAccessIssue]
)

print(Nope)
print(holdfast.Nope)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
Client(42)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Client(object())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Client([42])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
Client(b"redis://h")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
AsyncClient(42)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Client.from_sqlalchemy("redis://h")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def threads(client: Client, cell: Cell) -> None:
    client.lock("a", cancel_on_loss=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.lock(42)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.lock("a", 10.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    cell.update(lambda value: 42)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    cell.set("1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def tasks(client: AsyncClient) -> None:
    @client.lock("job")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    def work() -> None: ...

    print(work)
