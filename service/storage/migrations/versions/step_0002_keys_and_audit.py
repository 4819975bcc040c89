"""API keys with roles, and the audit; the version of the tables is told by Alembic from here on.

Revises 0001, what ``dynid_schema`` called version 1.
"""

import sqlalchemy as sa
from alembic import op

from service.storage.append_only import refuse_changes

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_IDENTIFIER = sa.String(64).with_variant(sa.String(64, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", _IDENTIFIER, primary_key=True),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("robots", sa.JSON(none_as_null=True)),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(255), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
    )
    op.create_table(
        "audit",
        sa.Column("id", _SERIAL, primary_key=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("principal", sa.String(255), nullable=False, index=True),
        sa.Column("action", sa.String(255), nullable=False),
        sa.Column("robot", sa.String(255), index=True),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("details", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("chain", sa.String(64), nullable=False),
        sqlite_autoincrement=True,
    )
    for statement in refuse_changes("audit", op.get_bind().dialect.name):
        op.execute(statement)
    op.drop_table("dynid_schema")


def downgrade() -> None:
    raise NotImplementedError("a step back is a restored backup: see 'dynid restore'")
