"""Tables that nobody can change, not even by mistake: the database itself refuses."""

from __future__ import annotations


def refuse_changes(table: str, dialect: str) -> list[str]:
    """Return the statements that make a table of SQLite or PostgreSQL append-only."""
    if dialect == "sqlite":
        return [
            f"CREATE TRIGGER {table}_refuse_{change.lower()} BEFORE {change} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} are append-only'); END"
            for change in ("UPDATE", "DELETE")
        ]
    return [
        f"CREATE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{table} are append-only'; END $$",
        f"CREATE TRIGGER {table}_refuse_change BEFORE UPDATE OR DELETE ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION {table}_refuse()",
        f"CREATE TRIGGER {table}_refuse_truncate BEFORE TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuse()",
    ]
