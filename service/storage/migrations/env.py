"""What Alembic runs a step in: the transaction of whoever asked for the migration."""

from alembic import context

from service.storage.migration import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], version_table=VERSION_TABLE, transaction_per_migration=False
)
context.run_migrations()
