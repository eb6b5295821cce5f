//! `src/api` and `src/mirror` as a crate of their own, without the rest of the program. It builds in seconds, which `just mutants`
//! does for each mutant.

#[path = "../../../src/api/mod.rs"]
pub mod api;
#[path = "../../../src/mirror/mod.rs"]
pub mod mirror;
