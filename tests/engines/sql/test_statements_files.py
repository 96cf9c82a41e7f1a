"""`docs/statements/` has each statement of each dialect in one piece, for readers.

python -m tests.engines.sql.test_statements_files   writes them anew
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from holdfast.engines.sql.dialect import Dialect, table_names
from holdfast.engines.sql.mysql import commands as mysql
from holdfast.engines.sql.postgres import commands as postgres
from holdfast.engines.sql.sqlite import commands as sqlite
from holdfast.engines.sql.statements import TEXTS, fill_slots

FOLDER = Path(__file__).parents[3] / "docs" / "statements"

SERVERS_TABLES = table_names("holdfast_leases", "")

DIALECTS: dict[str, tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]] = {
    "sqlite": (sqlite.TABLES, sqlite.SLOTS, sqlite.TEXTS),
    "postgresql": (SERVERS_TABLES, postgres.SLOTS, postgres.TEXTS),
    "mariadb": (SERVERS_TABLES, mysql.SLOTS, mysql.RETURNING_TEXTS),
}

HEAD = """\
-- The statements of holdfast on {name}, as they are composed of the texts in
-- src/holdfast/engines/sql/statements.py and of those of this dialect. Made by
-- tests/engines/sql/test_statements_files.py. What each is for is in `Dialect`
-- (src/holdfast/engines/sql/dialect.py). `now` stands for
--     {now}
"""


def written(name: str) -> str:
    """All statements of a dialect."""
    tables, own, texts = DIALECTS[name]
    slots = fill_slots(tables, **{**own, "now": "now"})
    parts = [HEAD.format(name=name, now=own["now"])]
    for each in fields(Dialect):
        text = {**TEXTS, **texts}.get(each.name)
        if text is not None:
            lines = text.format_map(slots).strip("\n").rstrip().splitlines()
            margin = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
            body = "\n".join(line[margin:].rstrip() for line in lines)
            parts.append(f"\n-- {each.name}\n{body};\n")
    return "".join(parts)


@pytest.mark.parametrize("name", DIALECTS)
def test_the_files_have_the_statements(name: str) -> None:
    assert (FOLDER / f"{name}.sql").read_text() == written(name), (
        "write them anew: python -m tests.engines.sql.test_statements_files"
    )


if __name__ == "__main__":
    for name in DIALECTS:
        (FOLDER / f"{name}.sql").write_text(written(name))
