//! Help: what it says. That its examples work is shown in `examples.rs`.

use assert_cmd::Command;

/// The help of a command, of the program where it is empty.
pub(crate) fn help(command: &str) -> String {
    let args: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .args(args)
        .arg("--help")
        .env("COLUMNS", "100")
        .env_remove("LINKERD_DOCKER_REGISTRY")
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_commands_of_manifests_say_what_they_do() {
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
