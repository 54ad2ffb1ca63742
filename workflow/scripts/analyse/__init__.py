"""Judge finished runs: records, tables, figures and the report (`docs/contracts.md`)."""
