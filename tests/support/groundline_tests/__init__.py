"""Support for several test modules: test doubles by the package whose ports they implement, contract suites,
real servers, a running suite."""
