//! Values → YAML and JSON documents. No client: what a cluster knows comes in as a value.
