//! `src/api` and `src/mirror` as a crate of their own, without the rest of the program. It builds in seconds, which `just mutants`
//! does for each mutant.

#![allow(
    dead_code,
    unused_imports,
    reason = "only the rest of the program uses some items"
)]

#[path = "../../../src/api/mod.rs"]
pub mod api;
#[path = "../../../src/mirror/mod.rs"]
pub mod mirror;
