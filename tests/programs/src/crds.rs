//! The CRDs of GitOps tools, of stores of secrets and of the Gateway API, out of the Go modules of these. Nothing is
//! built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::kept::{cache, kept};
use crate::{go, tell};

/// Where CRDs are from. To move to another version, take the sum that `go mod download -json MODULE@VERSION` prints.
#[derive(Hash)]
struct Module {
    name: &'static str,
    /// The checksum of the module, as in a `go.sum`.
    sum: &'static str,
    files: &'static [&'static str],
}

const GITOPS: [Module; 4] = [
    Module {
        name: "github.com/argoproj/argo-cd/v3@v3.3.0",
        sum: "h1:9UlruTd5cC/MyvorTXgAIblfZTy63MF5FYvvoAaUvwU=",
        files: &[
            "manifests/crds/application-crd.yaml",
            "manifests/crds/applicationset-crd.yaml",
        ],
    },
    Module {
        name: "github.com/fluxcd/kustomize-controller@v1.7.3",
        sum: "h1:SzNnGn/4ObAPEHHleM5U7y/AKxKXph3Vj6ZhteeXw8M=",
        files: &["config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml"],
    },
    Module {
        name: "github.com/external-secrets/external-secrets@v0.20.4",
        sum: "h1:HhNAjWfFEshhItphr28SGsHzf2bUP7uDAOVLg76uNAg=",
        files: &["config/crds/bases/external-secrets.io_externalsecrets.yaml"],
    },
    Module {
        name: "github.com/bitnami-labs/sealed-secrets@v0.32.2",
        sum: "h1:YP3g8JLQqm482GbkaGLmO9AzelOsRaVSs41wv15CeB8=",
        files: &["helm/sealed-secrets/crds/bitnami.com_sealedsecrets.yaml"],
    },
];
const GATEWAY_API: [Module; 1] = [Module {
    name: "sigs.k8s.io/gateway-api@v1.6.3",
    sum: "h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc=",
    files: &[
        "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
        "config/crd/standard/gateway.networking.k8s.io_tcproutes.yaml",
    ],
}];
/// A `go.mod` with a version of Go that the modules may require.
const GO_MOD: &str = "go 1.26.0\n";

/// The folder with the CRDs of Argo CD, Flux, External Secrets and Sealed Secrets, downloaded now if it is not there yet.
pub fn gitops_crds() -> anyhow::Result<PathBuf> {
    crds("crds", &GITOPS)
}

/// The folder with the CRDs of routes in the standard channel of Gateway API 1.6, the first that serves no alpha version,
/// downloaded now if it is not there yet.
pub fn gateway_api_crds() -> anyhow::Result<PathBuf> {
    crds("gateway-api", &GATEWAY_API)
}

fn crds(name: &str, modules: &[Module]) -> anyhow::Result<PathBuf> {
    kept(
        &cache(name)?,
        &go::fingerprint(modules),
        go::version("go", Path::new(env!("CARGO_MANIFEST_DIR")), GO_MOD),
        |folder| modules.iter().try_for_each(|module| copy(module, folder)),
    )
}

fn copy(module: &Module, folder: &Path) -> anyhow::Result<()> {
    tell(&format!("downloading the CRDs in {}", module.name));
    let output = Command::new("go")
        .args(["mod", "download", "-json", module.name])
        .current_dir(folder)
        .output()
        .context("failed to run go mod download")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("go mod download failed: {said}");
    }
    let sum = field(&said, "Sum").unwrap_or_default();
    if sum != module.sum {
        bail!("{} is {sum}, not {}", module.name, module.sum);
    }
    let from = PathBuf::from(field(&said, "Dir").context("go mod download names no folder")?);
    for file in module.files {
        let to = folder.join(Path::new(file).file_name().unwrap_or_default());
        fs::copy(from.join(file), to).with_context(|| format!("{} has no {file}", module.name))?;
    }
    Ok(())
}

/// A text in an object of JSON as Go prints it, each field on its line.
fn field<'o>(object: &'o str, name: &str) -> Option<&'o str> {
    let key = format!("\"{name}\": \"");
    let mut lines = object.lines().map(str::trim);
    let value = lines.find_map(|line| line.strip_prefix(key.as_str()))?;
    value.trim_end_matches(',').strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_what_go_prints() {
        let said = "{\n\t\"Path\": \"x\",\n\t\"Sum\": \"h1:a=\",\n\t\"Dir\": \"/mod/x@v1\"\n}\n";
        assert_eq!(field(said, "Sum"), Some("h1:a="));
        assert_eq!(field(said, "Dir"), Some("/mod/x@v1"));
        assert_eq!(field(said, "Error"), None);
    }
}
