"""Steps from one version of the tables to the next, run by Alembic.

A new database is made from ``service.storage.tables`` at once and needs none of them. A step is written by hand, works
on SQLite and PostgreSQL, and is never changed once it is on main: databases out there have taken it.
"""
