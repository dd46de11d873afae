"""PostgreSQL: tables, transactions, catalog versions, plans, decisions, and the embedded server."""
