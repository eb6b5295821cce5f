//! From what was read of a target cluster to the objects of a link to it. Pure: `link`, `link-gen` and `fleet` read on
//! their own, and share this.

use hints::suggest::ClusterFlags;
use k8s_openapi::api::core::v1::Service;
use manifests::{
    gateway::{Overrides, RemoteGateway},
    kubeconfig::{KubeconfigContext, Secret, is_local_address},
    link::{ClusterName, LinkObjects, LinkTarget, link},
};
use mirror_core::{
    api::link::{Link, LinkerdConfig},
    mirror::{self, ClusterNetworks, Host, Refused, refusal, refused_message},
};

use crate::{
    given::Given,
    link::{api_server::Way, existing::Existing, flags::LinkArgs, remark::Remark},
};

/// What a target cluster says about itself.
#[derive(Clone)]
pub struct LinkFacts {
    /// The cluster, as the user's kubeconfig has it.
    pub context: KubeconfigContext,
    /// The UID of its Namespace kube-system; `None` if the user may not read it.
    pub uid: Option<String>,
    /// The flags that name it, for commands that the user should run.
    pub flags: ClusterFlags,
    /// Linkerd's configuration.
    pub config: LinkerdConfig,
    /// The gateway's Service, if links use the gateway.
    pub gateway: Option<Service>,
}

/// The link that is wanted.
#[derive(Clone, Copy)]
pub struct WantedLink<'w> {
    /// Name of the target cluster.
    pub name: &'w ClusterName,
    /// Namespace of Linkerd's control planes.
    pub linkerd: &'w str,
    /// The flags, with what is kept of the link that is there.
    pub args: &'w LinkArgs,
    /// Which of the flags the user has given.
    pub given: &'w Given,
    /// The link that is there.
    pub existing: Existing<'w>,
}

impl WantedLink<'_> {
    /// The objects that link a source cluster to the target cluster, by `way` and with `token`. What is there already
    /// stays, unless one of the given flags names it.
    pub fn objects(
        &self,
        facts: &LinkFacts,
        way: &Way,
        token: &Secret,
        remarks: &mut Vec<Remark>,
    ) -> anyhow::Result<LinkObjects> {
        let Self {
            args,
            given,
            existing,
            ..
        } = *self;
        let gateway = match &facts.gateway {
            Some(service) => Some(self.gateway(service, &facts.flags, remarks)?),
            None => None,
        };
        let target = LinkTarget {
            name: self.name.clone(),
            uid: facts.uid.clone(),
            config: facts.config.clone(),
            linkerd_namespace: self.linkerd.to_owned(),
            api_server: way.access(&args.service_account_name, token, remarks)?,
            gateway,
        };
        let now = &facts.context.cluster.server;
        if let Some(kept) = &args.api_server_address
            && existing.credentials.is_some()
            && !given.has(&["api_server_address"])
            && kept != now
            && !is_local_address(now)
        {
            let flag = "--api-server-address";
            remarks.push(Remark::kept("address of the API server", kept, now, flag));
        }
        let mut made = link(&target, &args.namespace, &args.options);
        existing.keep(&mut made.link, given);
        existing.keep_fleet(&mut made);
        remarks.extend(refused(&made.link)?);
        Ok(made)
    }

    fn gateway(
        &self,
        service: &Service,
        flags: &ClusterFlags,
        remarks: &mut Vec<Remark>,
    ) -> anyhow::Result<RemoteGateway> {
        let overrides = Overrides {
            addresses: self.args.set_addresses(),
            port: Some(self.args.gateway_port).filter(|port| *port != 0),
        };
        let read = |overrides| RemoteGateway::read(service, overrides, flags);
        let gateway = read(&overrides)?;
        if let Ok(now) = read(&Overrides::default()) {
            let (kept, now) = (gateway.addresses.join(","), now.addresses.join(","));
            if kept != now && !self.given.has(&["gateway_addresses"]) {
                let flag = "--gateway-addresses";
                remarks.push(Remark::kept("gateway address", &kept, &now, flag));
            }
        }
        Ok(gateway)
    }
}

/// A warning about addresses that the controller will refuse. Only the controller knows what names resolve to, and the
/// networks of the source cluster.
fn refused(link: &Link) -> anyhow::Result<Option<Remark>> {
    let Some(gateway) = mirror::Target::parse(link, false)?.gateway else {
        return Ok(None);
    };
    let known = gateway.hosts.iter().filter_map(|host| match host {
        Host::Ip(address) => Some(*address),
        Host::Name(_) => None,
    });
    let refused: Vec<Refused> = known
        .filter_map(|address| {
            let cluster = ClusterNetworks::default();
            let why = refusal(address, gateway.networks.as_deref(), &cluster)?;
            Some(Refused { address, why })
        })
        .collect();
    Ok((!refused.is_empty()).then(|| {
        Remark::Warning(format!(
            "the controller refuses these gateway addresses: {}; pass others with --gateway-addresses, or allow their \
             networks with --gateway-networks",
            refused_message(&refused)
        ))
    }))
}
