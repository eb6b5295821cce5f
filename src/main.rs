//! The binary: parse, run, exit code. All behaviour is in the library.

use std::process::ExitCode;

#[cfg(all(target_os = "linux", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // ring is linked too, so rustls chooses none by itself.
    #[cfg(feature = "fips")]
    assert!(
        rustls::crypto::default_fips_provider()
            .install_default()
            .is_ok(),
        "the provider of TLS is chosen only here"
    );
    linkerd_mc::cli::main(std::env::args_os())
}
