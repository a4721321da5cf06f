"""Files with other files in them."""
