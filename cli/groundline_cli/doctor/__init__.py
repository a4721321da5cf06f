"""What `groundline doctor` looks at: an installation as its users see it, and its database."""
