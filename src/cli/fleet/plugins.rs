//! The credential plugins for the clusters of ClusterProfiles. Only flags name them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueHint};
use hints::hint::fail;
use kube::config::{ExecConfig, ExecInteractiveMode};
use links::fleet::{
    loaded::{LoadedFleet, load},
    profiles::CredentialPlugin,
};
use manifests::yaml::from_yaml;
use serde::Deserialize;

use crate::cli::common::args::Global;

/// The version of the interface of plugins, unless a file names another one.
const API_VERSION: &str = "client.authentication.k8s.io/v1";

/// Which commands may be run.
#[derive(Clone, Debug, Default, Args)]
pub struct PluginFlags {
    /// For clusters of clusterProfiles: run this command as the credential plugin for the access provider of this name. Can
    /// be repeated
    #[arg(long, value_name = "NAME=COMMAND", requires = "file", value_parser = plugin)]
    credential_plugin: Vec<CredentialPlugin>,
    /// For clusters of clusterProfiles: file with the commands for access providers, in the format of KEP-5339
    #[arg(long, value_name = "FILE", requires = "file", value_hint = ValueHint::FilePath)]
    clusterprofile_provider_file: Option<PathBuf>,
}

impl PluginFlags {
    /// Reads a file, and the ClusterProfiles that it names with these plugins.
    pub async fn load(&self, global: &Global, file: &Path) -> anyhow::Result<LoadedFleet> {
        let plugins = self.plugins()?;
        load(&global.access(), global.linkerd_flag(), file, &plugins).await
    }

    /// The plugins, in the order in which they are preferred.
    fn plugins(&self) -> anyhow::Result<Vec<CredentialPlugin>> {
        let mut plugins = self.credential_plugin.clone();
        if let Some(path) = &self.clusterprofile_provider_file {
            let shown = path.display();
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
            let of_file = of_file(&text).with_context(|| format!("invalid {shown}"))?;
            plugins.extend(of_file);
        }
        Ok(plugins)
    }
}

/// A plugin without arguments.
pub fn plugin(text: &str) -> Result<CredentialPlugin, String> {
    match text.split_once('=') {
        Some((name, command)) if !name.is_empty() && !command.is_empty() => Ok(CredentialPlugin {
            name: name.to_owned(),
            exec: ExecConfig {
                api_version: Some(API_VERSION.to_owned()),
                command: Some(command.to_owned()),
                interactive_mode: Some(ExecInteractiveMode::IfAvailable),
                provide_cluster_info: true,
                ..ExecConfig::default()
            },
        }),
        _ => Err("must be NAME=COMMAND, such as eks=/usr/local/bin/eks-auth".to_owned()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderFile {
    providers: Vec<Provider>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Provider {
    name: String,
    exec_config: ExecConfig,
    #[serde(rename = "profileSourcedCLIArgsPolicy")]
    arguments: Option<String>,
    #[serde(rename = "profileSourcedEnvVarsPolicy")]
    variables: Option<String>,
}

pub fn of_file(text: &str) -> anyhow::Result<Vec<CredentialPlugin>> {
    // What serde says may quote what is in the file, such as a token.
    let file = from_yaml::<ProviderFile>(text);
    let file = file.map_err(|_| fail("it does not have the format of KEP-5339", FORMAT))?;
    let plugins = file.providers.into_iter().map(|provider| {
        for policy in [&provider.arguments, &provider.variables] {
            if policy
                .as_deref()
                .is_some_and(|policy| !["", "Ignore"].contains(&policy))
            {
                return Err(fail(
                    format!(
                        "the provider {} takes arguments or variables from profiles",
                        provider.name
                    ),
                    "only Ignore is supported: what is run must not depend on an object of a hub",
                ));
            }
        }
        let mut exec = provider.exec_config;
        exec.interactive_mode
            .get_or_insert(ExecInteractiveMode::IfAvailable);
        Ok(CredentialPlugin {
            name: provider.name,
            exec,
        })
    });
    plugins.collect()
}

const FORMAT: &str =
    "write {\"providers\": [{\"name\": …, \"execConfig\": {\"apiVersion\": …, \"command\": …}}]}";
