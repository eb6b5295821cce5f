//! `linkerd-mc completions` and `linkerd-mc man`: completion scripts and manual pages.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Command, ValueEnum};
use clap_complete::env::{self, EnvCompleter};

use super::common::{complete, output};

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  # bash, in ~/.bashrc
  source <(linkerd-mc completions bash)

  # zsh, once, in a folder of $fpath
  linkerd-mc completions zsh > ~/.zfunc/_linkerd-mc

  # fish, once
  linkerd-mc completions fish > ~/.config/fish/completions/linkerd-mc.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  # Read the manual
  linkerd-mc man | man -l -

  # Install all pages
  linkerd-mc man --directory /usr/local/share/man/man1";

/// Print a shell completion script
///
/// The script calls this program, and also completes contexts, namespaces and linked clusters.
#[derive(Debug, Args)]
#[command(after_long_help = COMPLETIONS_EXAMPLES)]
pub struct Completions {
    /// Shell that the script is for
    shell: Shell,
}

/// Print the manual page, or write a page for each command
#[derive(Debug, Args)]
#[command(after_long_help = MAN_EXAMPLES)]
pub struct Man {
    /// Write all pages to this directory, instead of printing the main page
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

/// A supported shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// Runs `completions`.
pub fn completions(command: &Command, args: &Completions) -> anyhow::Result<()> {
    output::data(&script(command, args.shell)?)
}

fn script(command: &Command, shell: Shell) -> anyhow::Result<String> {
    let shell: &dyn EnvCompleter = match shell {
        Shell::Bash => &env::Bash,
        Shell::Zsh => &env::Zsh,
        Shell::Fish => &env::Fish,
    };
    complete::script(shell, command.get_name())
}

/// Runs `man`.
pub fn man(command: Command, args: &Man) -> anyhow::Result<()> {
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return output::data(
            &String::from_utf8(page).context("the manual page is not valid UTF-8")?,
        );
    };
    write_pages(command, directory)
        .with_context(|| format!("cannot write manual pages to {}", directory.display()))
}

fn write_pages(command: Command, directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(command, directory)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn committed_scripts_are_what_the_command_prints() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions");
        for (shell, file) in [
            (Shell::Bash, "linkerd-mc.bash"),
            (Shell::Zsh, "_linkerd-mc"),
            (Shell::Fish, "linkerd-mc.fish"),
        ] {
            let printed = script(&super::super::Cli::command(), shell).unwrap();
            let kept = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
            let name = format!("{shell:?}").to_lowercase();
            assert!(
                kept == printed,
                "completions/{file} is out of date: cargo run -- completions {name} > completions/{file}"
            );
        }
    }

    #[test]
    fn every_command_has_a_manual_page() {
        let folder = tempfile::tempdir().unwrap();
        write_pages(super::super::Cli::command(), folder.path()).unwrap();
        for name in [
            "linkerd-mc.1",
            "linkerd-mc-install.1",
            "linkerd-mc-link-gen.1",
        ] {
            let page = std::fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(page.contains(".TH linkerd-mc"), "{name}");
        }
    }
}
