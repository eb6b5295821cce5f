//! Opens the browser of the user.

use std::{
    env,
    process::{Command, Stdio},
};

/// Opens an address. Returns whether there is a program for that.
pub fn open(url: &str) -> bool {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        // Without a screen, xdg-open may start a browser in this terminal.
        let has_screen = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        if !["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(has_screen) {
            return false;
        }
        "xdg-open"
    };
    let started = Command::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.is_ok()
}
