"""The tables as they were when migrations began; databases of that version are taken over as they are."""

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    raise NotImplementedError("a new database is made at the newest version, never step by step")


def downgrade() -> None:
    raise NotImplementedError("there is nothing before")
