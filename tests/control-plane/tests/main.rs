//! The control planes themselves: what other tests take for granted.

mod faults;
mod planes;
