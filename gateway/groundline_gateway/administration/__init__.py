"""Administration of the installation, which the gateway serves itself: the keys of all callers, and
the audit log."""
