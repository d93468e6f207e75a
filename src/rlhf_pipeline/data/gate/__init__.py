"""The data gate: Great Expectations suites over the prepared tables, computed by DuckDB where they lie."""
