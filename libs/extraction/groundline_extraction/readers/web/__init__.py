"""HTML, and other formats of websites."""
