"""URLs of MariaDB and MySQL: what they may say, and what is refused before anything happens."""

from pathlib import Path

import pytest

import holdfast
from holdfast.engines.sql.connection import BrokenError, ConflictError, MissingError, RefusedError
from holdfast.engines.sql.mysql.connection import LockedError, read_error


@pytest.mark.parametrize(
    "url",
    [
        "mariadb://ann:secret@db.invalid:3307/app",
        "mysql://db.invalid/app",
        "mariadb://ann:p%40ss%2Fword@db.invalid/app?table=locks.leases&ttl=5&prefix=x",
        "mariadb://localhost/app?socket=/run/mysqld/mysqld.sock&connections=2",
    ],
)
def test_a_url(url: str) -> None:
    with holdfast.Client(url) as client:
        assert client.guarantees.suits == "correctness"
        assert "secret" not in repr(client)


def test_mysql_is_labelled_untested() -> None:
    with holdfast.Client("mysql://db.invalid/app") as mysql:
        assert "untested" in mysql.guarantees.engine
    with holdfast.Client("mariadb://db.invalid/app") as mariadb:
        assert "untested" not in mariadb.guarantees.engine


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mariadb://db.invalid/app?mode=red", "mode: this engine has no such option"),
        ("mariadb://db.invalid/app?connections=0", "connections: must be a whole number"),
        ("mariadb://db.invalid/app?table=a%60b", "table: must be a name"),
        ("mariadb://db.invalid/app?table=a.b.c", "table: must be a name"),
        ("mariadb://db.invalid/app?ssl=maybe", "ssl: must be on"),
        ("mariadb://db.invalid/app?ssl_ca=/no/such/file", "ssl_ca: cannot be read"),
        ("mariadb://db.invalid", "url: must name a database"),
        ("mysql://a..b/mine", "url: 'a..b' cannot be the name of a host"),
        ("mysql://db.invalid/a/b", "url: must name a database"),
    ],
)
def test_what_is_wrong_with_a_url(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        holdfast.Client(url)


def test_a_key_that_makes_no_sense(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("none")
    url = f"mariadb://db.invalid/app?ssl_cert={tmp_path}/key"
    with pytest.raises(ValueError, match="ssl_cert: cannot be read"):
        holdfast.Client(url)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (1927, BrokenError),
        (1290, BrokenError),
        (1205, LockedError),
        (1213, ConflictError),
        (1062, ConflictError),
        (1146, MissingError),
        (1142, RefusedError),
        (9999, RefusedError),
    ],
)
def test_what_an_error_means(number: int, kind: type[Exception]) -> None:
    assert type(read_error(number, "what it said")) is kind
    assert "what it said" in str(read_error(number, "what it said"))


def test_nobody_there_is_unavailable() -> None:
    with (
        holdfast.Client("mariadb://127.0.0.1:1/app") as client,
        pytest.raises(holdfast.EngineUnavailable, match=r"127\.0\.0\.1:1/app"),
    ):
        client.lock("job", ttl=1).acquire(blocking=False)
