//! Which cluster a command uses, and as whom: from its flags and kubeconfigs to a client.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use hints::{
    console::Console,
    hint::{fail, is_misuse},
    suggest::ClusterFlags,
};
use kube::{Client, Config, config::Kubeconfig};

use crate::{
    kubeconfig,
    multiplexed::CommandClients,
    resolve::{Flags, address_of_flag, resolve, with_flags},
};

/// The cluster that a command uses, and the user.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Path of the kubeconfig; without it `$KUBECONFIG`, then `~/.kube/config`, then in-cluster.
    pub kubeconfig: Option<PathBuf>,
    /// Context; without it the kubeconfig's current one.
    pub context: Option<String>,
    /// User to impersonate; without it, the one that the user of the kubeconfig impersonates.
    pub as_user: Option<String>,
    /// Groups to impersonate. They need a user.
    pub as_groups: Vec<String>,
    /// Address of the API server; overrides the kubeconfig's.
    pub api_addr: Option<String>,
    /// Namespace of Linkerd's control plane; empty for the usual one.
    pub linkerd_namespace: String,
    /// Whether a fleet file names the kubeconfig, so that whoever may change that file chooses it. Then it may not run a
    /// program or read a file.
    pub is_of_fleet: bool,
    /// A kubeconfig that is in no file, or why there is none. Without it, the one at `kubeconfig` is used.
    pub given: Option<Arc<Result<Kubeconfig, String>>>,
    /// Who tells the user that a plugin of the kubeconfig is waited for.
    pub console: &'static dyn Console,
    /// What the command has for all of its clusters.
    pub shared: CommandClients,
}

impl Access {
    /// The same access, with the kubeconfig that a fleet file names if it names one.
    #[must_use]
    pub fn with_kubeconfig_of_fleet(self, path: Option<PathBuf>) -> Self {
        match path {
            Some(path) => Self {
                kubeconfig: Some(path),
                is_of_fleet: true,
                ..self
            },
            None => self,
        }
    }

    /// The same access through another context.
    #[must_use]
    pub fn with_context(&self, context: &str) -> Self {
        Self {
            context: Some(context.to_owned()),
            ..self.clone()
        }
    }

    /// The flags that name this cluster and user in a command. The current context is named, so that the command also
    /// means this cluster after the user has chosen another one.
    pub fn flags(&self) -> ClusterFlags {
        let current = || self.kubeconfig().ok()?.current_context;
        let context = self.context.clone().or_else(current);
        self.flags_with(context.as_deref())
            .at(self.api_addr.clone())
    }

    /// The flags that are the same for all clusters, for commands that name their clusters themselves.
    pub fn common_flags(&self) -> ClusterFlags {
        self.flags_with(None)
    }

    fn flags_with(&self, context: Option<&str>) -> ClusterFlags {
        let path = self.kubeconfig.as_ref().map(|path| path.to_string_lossy());
        let single = [
            ("--kubeconfig", path.as_deref()),
            ("--context", context),
            ("--as", self.as_user.as_deref()),
        ];
        let single = single
            .into_iter()
            .filter_map(|(flag, value)| Some((flag, value?)));
        let groups = self
            .as_groups
            .iter()
            .map(|group| ("--as-group", group.as_str()));
        let all = single.chain(groups);
        all.fold(ClusterFlags::default(), |flags, (flag, value)| {
            flags.with(flag, value)
        })
        .of_linkerd(&self.linkerd_namespace)
    }

    /// The access to another cluster, for which `--api-addr` is not.
    pub fn of_other(&self, context: &str) -> Self {
        Self {
            api_addr: None,
            ..self.with_context(context)
        }
    }

    /// The whole kubeconfig of this access.
    ///
    /// Fails if there is none, even in a cluster.
    pub fn kubeconfig(&self) -> anyhow::Result<Kubeconfig> {
        if let Some(given) = self.given.as_deref() {
            return given.clone().map_err(anyhow::Error::msg);
        }
        let kubeconfig = kubeconfig::read(self.kubeconfig.as_deref())?;
        if let Some(path) = self.kubeconfig.as_ref().filter(|_| self.is_of_fleet) {
            kubeconfig::require_data(&kubeconfig, path)?;
        }
        Ok(kubeconfig)
    }

    /// Configuration of a client for this access: all that leads to the cluster.
    pub fn config(&self) -> anyhow::Result<Config> {
        let flags = Flags {
            server: self.api_addr.as_deref().map(address_of_flag).transpose()?,
            user: self.as_user.as_deref(),
            groups: &self.as_groups,
        };
        let from_file = self.kubeconfig.is_some() || self.context.is_some() || kubeconfig::is_set();
        let kubeconfig = match self.kubeconfig() {
            Ok(kubeconfig) => kubeconfig,
            Err(error) if from_file => return Err(error),
            Err(error) => {
                let config = Config::incluster().map_err(|_| error)?;
                return with_flags(config, &flags);
            }
        };
        let context = self.context_name(&kubeconfig)?;
        kubeconfig::require_user(&kubeconfig, &context)?;
        let variable = |name: &str| std::env::var(name).ok();
        resolve(&kubeconfig, &context, &flags, variable).map_err(|error| {
            if is_misuse(&error.why) {
                return error.why;
            }
            let entry = error.entry.named(self.kubeconfig.as_deref());
            error.why.context(format!("cannot use {entry}"))
        })
    }

    /// A client for this access, for one-shot requests: each of them ends within `deadline`.
    pub async fn client(&self, deadline: Duration) -> anyhow::Result<Client> {
        Box::pin(self.client_of(self.config()?, deadline)).await
    }

    /// The same for its configuration.
    pub async fn client_of(&self, config: Config, deadline: Duration) -> anyhow::Result<Client> {
        let client = self.shared.client(config, deadline, self.console).await;
        client.with_context(|| {
            match self
                .kubeconfig()
                .and_then(|kubeconfig| self.context_name(&kubeconfig))
            {
                Ok(context) => {
                    let entry = kubeconfig::KubeconfigEntry::Context(context)
                        .named(self.kubeconfig.as_deref());
                    format!("cannot use {entry}")
                }
                Err(_) => "cannot use the account of this Pod".to_owned(),
            }
        })
    }

    /// Name of the current context. Fails with the known names if it is not in `kubeconfig`.
    pub fn context_name(&self, kubeconfig: &Kubeconfig) -> anyhow::Result<String> {
        let Some(name) = self
            .context
            .clone()
            .or_else(|| kubeconfig.current_context.clone())
        else {
            return Err(fail(
                "the kubeconfig has no current context",
                format!(
                    "pass --context; {} lists all contexts",
                    self.flags().kubectl("config get-contexts", &[])
                ),
            ));
        };
        let known: Vec<&str> = kubeconfig
            .contexts
            .iter()
            .map(|context| context.name.as_str())
            .collect();
        if known.contains(&name.as_str()) {
            return Ok(name);
        }
        let hint = if known.is_empty() {
            "the kubeconfig has no contexts; check --kubeconfig and $KUBECONFIG".to_owned()
        } else {
            format!("known contexts: {}", known.join(", "))
        };
        Err(fail(
            format!("context {name:?} is not in the kubeconfig"),
            hint,
        ))
    }
}
