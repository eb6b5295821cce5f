//! The binary: parse, run, exit code. All behaviour is in the library.

use std::process::ExitCode;

#[cfg(all(target_os = "linux", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    linkerd_mc::cli::main(std::env::args_os())
}
