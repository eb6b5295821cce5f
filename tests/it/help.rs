//! Compares help texts with snapshots. `examples.rs` tests that their examples work.

use crate::support::program::help;

#[test]
fn help_of_manifest_commands_is_as_in_the_snapshots() {
    for command in [
        "install",
        "link-gen",
        "allow",
        "revoke",
        "rotate",
        "drain",
        "undrain",
        "unlink",
        "uninstall",
        "hand-back",
        "completions",
        "man",
    ] {
        insta::assert_snapshot!(command, help(command));
    }
}
