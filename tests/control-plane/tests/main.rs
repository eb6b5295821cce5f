//! The control planes themselves: what other tests take for granted.

mod controllers;
mod faults;
mod planes;
mod pool;
