"""URLs of PostgreSQL: what they may say, and what is refused before anything happens."""

import pytest
from psycopg.conninfo import conninfo_to_dict

import holdfast
from holdfast.engines.sql.connection import BrokenError, ConflictError, MissingError, RefusedError
from holdfast.engines.sql.postgres import hosts_of, parameters_of
from holdfast.engines.sql.postgres.connection import addresses_of, read_error


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:secret@db.invalid:5433/app",
        "postgres://db.invalid/app",
        "postgresql:///app?host=/var/run/postgresql",
        "postgresql://a.invalid:1,b.invalid:2/app?target_session_attrs=read-write",
        "postgresql://db.invalid/app?sslmode=require&application_name=billing&connections=2",
        "postgresql://ann:p%40ss%2Fword@db.invalid/app?table=locks.leases&ttl=5&prefix=x",
    ],
)
def test_a_url_as_libpq_knows_it(url: str) -> None:
    with holdfast.Client(url) as client:
        assert client.guarantees.suits == "correctness"
        assert "secret" not in repr(client)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://db.invalid/a\0b", "url: must not contain control characters"),
        ("postgresql://db.invalid/app?options=a%00b", "options: must not contain NUL characters"),
    ],
)
def test_what_is_wrong_with_a_url(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        holdfast.Client(url)


def test_a_nul_in_an_argument_cuts_nothing_off() -> None:
    """libpq would end the text there, and leave out what follows: to encrypt, for example."""
    with pytest.raises(ValueError, match=r"^password: must not contain NUL characters$"):
        parameters_of({"host": "db.invalid", "password": "secret\0", "sslmode": "require"})


def tried(**arguments: str) -> list[tuple[object, ...]]:
    """Which hosts, addresses and ports are tried, in order."""
    hosts = hosts_of(parameters_of(arguments))
    found = [conninfo_to_dict(each) for host in hosts for each in addresses_of(host)]
    return [tuple(each.get(name) for name in ("host", "hostaddr", "port")) for each in found]


def test_each_host_is_tried_by_itself() -> None:
    assert tried(host="/run,127.0.0.1,::1", port="1,2,3") == [
        ("/run", None, "1"),
        ("127.0.0.1", "127.0.0.1", "2"),
        ("::1", None, "3"),
    ]
    assert tried(host="a.invalid,b.invalid", hostaddr="10.0.0.1,10.0.0.2", port="7") == [
        ("a.invalid", "10.0.0.1", "7"),
        ("b.invalid", "10.0.0.2", "7"),
    ]
    assert tried(host="/a,/b", port="1,2,3") == [("/a,/b", None, "1,2,3")], "libpq refuses it"
    assert tried() == [(None, None, "5432")]
    with pytest.raises(BrokenError, match=r"the address of a\.invalid was not found"):
        tried(host="a.invalid")


def test_the_environment_may_name_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "/a,/b")
    assert [host for host, *_ in tried()] == ["/a", "/b"]
    assert [host for host, *_ in tried(host="/c")] == ["/c"]
    assert [host for host, *_ in tried(service="mine")] == [None]


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("", BrokenError),
        ("57P01", BrokenError),
        ("08006", BrokenError),
        ("25006", BrokenError),
        ("40001", ConflictError),
        ("40P01", ConflictError),
        ("42P01", MissingError),
        ("42501", RefusedError),
        ("22021", RefusedError),
    ],
)
def test_what_an_error_means(state: str, kind: type[Exception]) -> None:
    assert type(read_error(state, "what it said\nDETAIL: more")) is kind
    assert "what it said" in str(read_error(state, "what it said"))


def test_nobody_there_is_unavailable() -> None:
    with (
        holdfast.Client("postgresql://127.0.0.1:1/app") as client,
        pytest.raises(holdfast.EngineUnavailable, match=r"127\.0\.0\.1:1/app"),
    ):
        client.lock("job", ttl=1).acquire(blocking=False)
