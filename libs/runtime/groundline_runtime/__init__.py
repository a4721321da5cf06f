"""What every Groundline service shares; import from the modules."""
