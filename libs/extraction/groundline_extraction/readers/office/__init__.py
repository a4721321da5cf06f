"""Documents, books, presentations and workbooks."""
