//! `linkerd-mc trust`: makes the files of a trust anchor, and of issuers below it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueHint};
use client::timing;
use hints::hint::HintExt as _;
use links::files::{FileReaders, write_new};
use manifests::authority::{Anchor, IssuerRequest, KeyedCertificate, new_anchor};

use super::common::{
    args::{self, Global},
    output,
};

const EXAMPLES: &str = "\
Examples:
  # Make a trust anchor for all clusters: ca.crt and ca.key
  linkerd-mc trust anchor ca

  # Make an issuer below it for a cluster: east.crt and east.key
  linkerd-mc trust issuer east --trust-domain east.example

  # Make an authority for cert-manager, which signs the issuer itself
  linkerd-mc trust issuer west-ca --trust-domain west.example --for-cert-manager";

/// Make a trust anchor, and issuers that may sign the names of one cluster alone
///
/// Proxies of two clusters accept each other if both trust the same anchor. The issuer of a cluster signs the certificates
/// of its proxies. One that may sign only names of its own trust domain cannot be used to impersonate workloads of another
/// cluster. docs/trust.md says how to install Linkerd with these files, and how to move clusters that share a trust domain.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TrustArgs {
    #[command(subcommand)]
    command: TrustCommand,
}

#[derive(Debug, Subcommand)]
enum TrustCommand {
    Anchor(AnchorArgs),
    Issuer(IssuerArgs),
}

/// Make a trust anchor
///
/// Writes its certificate to NAME.crt, and its key to NAME.key, which only you can read. Keep the key outside of the
/// clusters: whoever has it can be any workload of each of them.
#[derive(Debug, Args)]
struct AnchorArgs {
    /// The files, without .crt and .key
    #[arg(value_name = "NAME", value_hint = ValueHint::FilePath)]
    name: PathBuf,
    /// How long it is valid
    #[arg(long, value_name = "DURATION", default_value = "87600h", value_parser = args::duration)]
    lifetime: Duration,
}

/// Make an issuer below a trust anchor, for one cluster
///
/// Writes its certificate to NAME.crt, and its key to NAME.key, which only you can read. The issuer may sign the names of
/// workloads in its trust domain alone: its name constraints permit DNS names below identity.linkerd.DOMAIN and URIs of
/// DOMAIN. Proxies refuse everything else.
#[derive(Debug, Args)]
struct IssuerArgs {
    /// The files, without .crt and .key
    #[arg(value_name = "NAME", value_hint = ValueHint::FilePath)]
    name: PathBuf,
    /// The trust domain of the cluster, which no other cluster has: Linkerd's value identityTrustDomain
    #[arg(long, value_name = "DOMAIN", value_parser = args::object_name)]
    trust_domain: String,
    /// The certificate of the trust anchor
    #[arg(long, value_name = "FILE", default_value = "ca.crt", value_hint = ValueHint::FilePath)]
    anchor: PathBuf,
    /// The key of the trust anchor, in PEM without a password
    #[arg(long, value_name = "FILE", default_value = "ca.key", value_hint = ValueHint::FilePath)]
    anchor_key: PathBuf,
    /// How long it is valid
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = args::duration)]
    lifetime: Duration,
    /// Make an authority that may sign Linkerd's issuer, for an Issuer of cert-manager
    #[arg(long)]
    for_cert_manager: bool,
}

/// Runs the command.
pub fn run(global: &Global, args: &TrustArgs) -> anyhow::Result<()> {
    match &args.command {
        TrustCommand::Anchor(args) => anchor(args),
        TrustCommand::Issuer(args) => issuer(global, args),
    }
}

fn anchor(args: &AnchorArgs) -> anyhow::Result<()> {
    let made = new_anchor(args.lifetime, timing::now())?;
    let [_, key] = write(&args.name, &made)?;
    output::note(&format!(
        "keep {} outside of the clusters; Linkerd never needs it",
        key.display()
    ));
    Ok(())
}

fn issuer(global: &Global, args: &IssuerArgs) -> anyhow::Result<()> {
    let anchor = Anchor::read(&read(&args.anchor)?, &read(&args.anchor_key)?)?;
    let request = IssuerRequest {
        linkerd: global.linkerd_namespace.clone(),
        trust_domain: args.trust_domain.clone(),
        lifetime: args.lifetime,
        signs_issuer: args.for_cert_manager,
    };
    let made = anchor.issue(&request, timing::now())?;
    write(&args.name, &made)?;
    output::note(&format!(
        "install Linkerd with --set identityTrustDomain={}; proxies refuse the names of any other domain below this issuer",
        args.trust_domain
    ));
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes both files, which must not be there yet, and returns their paths.
fn write(name: &Path, made: &KeyedCertificate) -> anyhow::Result<[PathBuf; 2]> {
    let path = |ending: &str| {
        let mut path = name.as_os_str().to_owned();
        path.push(ending);
        PathBuf::from(path)
    };
    let (certificate, key) = (path(".crt"), path(".key"));
    let write = |path: &Path, text: &str, readers| {
        write_new(path, text.as_bytes(), readers).hint(
            || format!("cannot write {}", path.display()),
            || {
                "files that exist are not replaced; pass another NAME, or remove both files first"
                    .to_owned()
            },
        )
    };
    write(&key, &made.key, FileReaders::Owner)?;
    let written = write(&certificate, &made.certificate, FileReaders::Umask);
    // A key without its certificate is of no use.
    written.inspect_err(|_| drop(fs::remove_file(&key)))?;
    output::note(&format!(
        "{} and {} written",
        certificate.display(),
        key.display()
    ));
    Ok([certificate, key])
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn run_line(line: &str, folder: &Path) -> anyhow::Result<()> {
        let folder = folder.display().to_string();
        let line = line.replace("./", &format!("{folder}/"));
        let cli = Cli::try_parse_from(line.split(' '))?;
        let Command::Trust(args) = &cli.command else {
            anyhow::bail!("another command")
        };
        run(&cli.global, args)
    }

    #[cfg(unix)]
    #[test]
    fn files_are_new_and_keys_are_for_their_owner() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let run = |line: &str| run_line(line, folder.path());
        let issuer = "linkerd-mc trust issuer ./a.b --trust-domain a.b --anchor ./ca.crt --anchor-key ./ca.key";
        assert!(run(issuer).unwrap_err().to_string().contains("ca.crt"));
        run("linkerd-mc trust anchor ./ca").unwrap();
        run(issuer).unwrap();
        for key in ["ca.key", "a.b.key"] {
            let mode = path(key).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{key}");
        }
        // Neither file is replaced, and no key is left without its certificate.
        let kept = [fs::read(path("a.b.crt")), fs::read(path("a.b.key"))].map(Result::unwrap);
        run(issuer).unwrap_err();
        assert_eq!(fs::read(path("a.b.key")).unwrap(), kept[1]);
        fs::remove_file(path("a.b.key")).unwrap();
        run(issuer).unwrap_err();
        assert_eq!(fs::read(path("a.b.crt")).unwrap(), kept[0]);
        assert!(!path("a.b.key").exists());
    }
}
