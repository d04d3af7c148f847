"""Transactions with the program's own database (docs/rules/transactions.md)."""
