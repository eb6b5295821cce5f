//! The releases of Kubernetes that tests run against, and the Go modules that these are built from.

use std::env;

use anyhow::{Context as _, bail};

/// Chooses a release by its name.
const VARIABLE: &str = "LINKERD_MC_KUBERNETES";

/// A release of Kubernetes, with a file of Go modules that builds it from the sources in `go/`.
#[derive(Debug)]
pub(crate) struct Release {
    name: &'static str,
    /// Arguments of `go build` that choose the modules and the source files; the newest needs none.
    pub(crate) arguments: &'static [&'static str],
    pub(crate) modules: &'static str,
    pub(crate) sums: &'static str,
}

/// The first one is taken unless another one is asked for.
const RELEASES: [Release; 2] = [
    Release {
        name: "newest",
        arguments: &[],
        modules: include_str!("../go/go.mod"),
        sums: include_str!("../go/go.sum"),
    },
    Release {
        name: "oldest",
        arguments: &["-modfile=oldest.mod", "-tags=oldest"],
        modules: include_str!("../go/oldest.mod"),
        sums: include_str!("../go/oldest.sum"),
    },
];

impl Release {
    /// The release that `LINKERD_MC_KUBERNETES` names, or the newest.
    pub(crate) fn chosen() -> anyhow::Result<&'static Self> {
        let name = env::var_os(VARIABLE).unwrap_or_default();
        Self::named(&name.to_string_lossy())
    }

    fn named(name: &str) -> anyhow::Result<&'static Self> {
        if name.is_empty() {
            return Ok(&RELEASES[0]);
        }
        if let Some(release) = RELEASES.iter().find(|release| release.name == name) {
            return Ok(release);
        }
        let mut choices = Vec::new();
        for release in &RELEASES {
            choices.push(format!("`{}` ({})", release.name, release.version()?));
        }
        bail!(
            "there is no Kubernetes `{name}` for tests\nhint: set {VARIABLE} to {}, or KUBEBUILDER_ASSETS to a folder \
             that holds the programs of another version",
            choices.join(" or ")
        )
    }

    /// Such as `v1.36.3`.
    pub(crate) fn version(&self) -> anyhow::Result<&'static str> {
        self.modules
            .lines()
            .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "))
            .context("the file of Go modules has no k8s.io/kubernetes")
    }

    /// Sets what the programs report as their version, which tells them from a development build.
    pub(crate) fn linker_flags(&self) -> anyhow::Result<String> {
        let version = self.version()?;
        let mut numbers = version.trim_start_matches('v').split('.');
        let (major, minor) = numbers
            .next()
            .zip(numbers.next())
            .with_context(|| format!("strange version {version}"))?;
        let set = |package| {
            format!(
                "-X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
            )
        };
        let (component, client) = (
            set("k8s.io/component-base/version"),
            set("k8s.io/client-go/pkg/version"),
        );
        Ok(format!("-s -w {component} {client}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_is_built_unless_another_is_named() {
        let name = |asked| Release::named(asked).unwrap().name;
        assert_eq!(
            ["", "newest", "oldest"].map(name),
            ["newest", "newest", "oldest"]
        );
    }

    #[test]
    fn unknown_name_is_refused_with_the_choices() {
        let error = Release::named("1.31").unwrap_err().to_string();
        assert!(
            error.starts_with("there is no Kubernetes `1.31` for tests\nhint: "),
            "{error}"
        );
        for release in &RELEASES {
            let choice = format!("`{}` ({})", release.name, release.version().unwrap());
            assert!(error.contains(&choice), "{error}");
        }
    }

    #[test]
    fn programs_report_the_version_of_their_module() {
        for release in &RELEASES {
            let version = release.version().unwrap();
            let [major, minor, _patch] = version
                .strip_prefix('v')
                .unwrap()
                .split('.')
                .collect::<Vec<_>>()[..]
            else {
                panic!("not a version: {version}")
            };
            let flags = release.linker_flags().unwrap();
            let numbers =
                format!(".gitMajor={major} -X k8s.io/component-base/version.gitMinor={minor} ");
            assert!(
                flags.contains(&format!(".gitVersion={version} ")),
                "{flags}"
            );
            assert!(flags.contains(&numbers), "{flags}");
        }
    }
}
