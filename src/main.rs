//! linkerd-mc
fn main() {}
