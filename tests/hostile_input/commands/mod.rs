//! The program with bad values of flags, bad kubeconfigs, and API servers that misbehave.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod flags;
mod kubeconfigs;
mod program;
mod servers;
