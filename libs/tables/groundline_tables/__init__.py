"""Tables: values of cells, types of columns, and plans for questions; import from the modules."""
