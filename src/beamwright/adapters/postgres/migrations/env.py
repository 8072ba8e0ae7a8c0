"""Alembic's entry point: writes the migrations out as one SQL script, which the service runs itself."""

from alembic import context

# With the default parameter style every percent sign of the SQL would come out doubled.
context.configure(
    dialect_name="postgresql", dialect_opts={"paramstyle": "named"}, as_sql=True, transactional_ddl=True
)
with context.begin_transaction():
    context.run_migrations()
