//! What tests need from the machine besides Rust, such as a program or root. A test that cannot run without it says so on
//! the terminal. Where `CI` is set it fails, unless `LINKERD_MC_MAY_MISS` names what is missing.

use std::{
    env,
    ffi::OsStr,
    io::{self, Write as _},
    path::Path,
};

/// Names, with commas between them, of what may be missing where `CI` is set: `skopeo,root`.
const MAY_MISS: &str = "LINKERD_MC_MAY_MISS";

/// Whether a program is installed. If it is not, [`missing`] says what is not run.
#[track_caller]
pub fn has_program(program: &str, not_run: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = on_path(program, &folders);
    if !found {
        missing(program, not_run);
    }
    found
}

/// Says that something is not run because this machine lacks `name`.
///
/// # Panics
///
/// Where `CI` is set and `LINKERD_MC_MAY_MISS` does not have the name.
#[track_caller]
pub fn missing(name: &str, not_run: &str) {
    let ci = env::var_os("CI").is_some_and(|value| !value.is_empty());
    let may_miss = env::var(MAY_MISS).unwrap_or_default();
    match verdict(name, not_run, ci, &may_miss) {
        // To the stream itself: what goes through `eprintln!` is only shown if the test fails.
        Ok(line) => drop(io::stderr().write_all(line.as_bytes())),
        #[expect(clippy::panic, reason = "the test has to fail")]
        Err(message) => panic!("{message}"),
    }
}

/// The line to print, or why the test fails.
fn verdict(name: &str, not_run: &str, ci: bool, may_miss: &str) -> Result<String, String> {
    let line = format!("not run: {not_run}: this needs {name}");
    let allowed = may_miss.split(',').any(|allowed| allowed.trim() == name);
    if ci && !allowed {
        return Err(format!(
            "{line}, and CI is set; {MAY_MISS}={name} permits that it is missing"
        ));
    }
    Ok(line + "\n")
}

fn on_path(program: &str, folders: &OsStr) -> bool {
    env::split_paths(folders).any(|folder| is_executable(&folder.join(program)))
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Set where this program runs itself for one test.
    const INSIDE: &str = "LINKERD_MC_REQUIREMENTS_INSIDE";

    #[test]
    fn inside_a_test_without_a_program() {
        if env::var_os(INSIDE).is_some() {
            assert!(!has_program("no-such-program", "the inner test"));
        }
    }

    #[test]
    fn message_is_shown_although_the_test_passes() {
        for (variables, passes) in [
            (&[] as &[(&str, &str)], true),
            (&[("CI", "true")], false),
            (&[("CI", "true"), (MAY_MISS, "no-such-program")], true),
        ] {
            let mut command = Command::new(env::current_exe().unwrap());
            command
                .args(["--exact", "tests::inside_a_test_without_a_program"])
                .env_remove("CI")
                .env_remove(MAY_MISS)
                .env(INSIDE, "1")
                .envs(variables.iter().copied());
            let output = command.output().unwrap();
            let [stdout, stderr] =
                [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
            assert_eq!(output.status.success(), passes, "{stdout}{stderr}");
            let shown = if passes { stderr } else { stdout };
            assert!(
                shown.contains("not run: the inner test: this needs no-such-program"),
                "{shown}"
            );
        }
    }

    #[test]
    fn missing_requirement_is_reported_and_fails_only_in_ci() {
        let line = "not run: the layout is read by others: this needs skopeo";
        for (ci, may_miss, passes) in [
            (false, "", true),
            (false, "root", true),
            (true, "", false),
            (true, "root", false),
            (true, "skopeo2,kskopeo", false),
            (true, "skopeo", true),
            (true, "root, skopeo", true),
        ] {
            let found = verdict("skopeo", "the layout is read by others", ci, may_miss);
            assert_eq!(found.is_ok(), passes, "{ci} {may_miss:?}: {found:?}");
            let said = found.unwrap_or_else(|message| message);
            assert!(said.starts_with(line), "{said}");
            assert_eq!(said.contains("LINKERD_MC_MAY_MISS=skopeo"), !passes);
            assert_eq!(said.ends_with('\n'), passes);
        }
    }

    #[test]
    fn only_executable_files_count_as_programs() {
        let file = env::current_exe().unwrap();
        let folder = file.parent().unwrap().as_os_str();
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(on_path(name, folder));
        assert!(!on_path("no-such-program", folder));
        assert!(!on_path("src", env!("CARGO_MANIFEST_DIR").as_ref()));
        assert!(!on_path("Cargo.toml", env!("CARGO_MANIFEST_DIR").as_ref()));
    }
}
