//! Real Kubernetes control planes on loopback, for tests.
