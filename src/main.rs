//! The binary: parse, run, exit code. All behaviour is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    linkerd_mc::cli::main(std::env::args_os())
}
