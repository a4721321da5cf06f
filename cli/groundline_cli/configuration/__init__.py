"""Configuration as code: what an installation is said to be, and what takes it there."""
