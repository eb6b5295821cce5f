//! A link that the owner of its target cluster has handed over as a file. The file is not trusted: it may have exactly the
//! objects of one link, and its kubeconfigs neither run programs nor read files. Pure.

use client::{insecure_tls, kubeconfig_in};
use hints::hint::fail;
use k8s_openapi::api::core::v1::Secret;
use kube::{ResourceExt as _, core::ObjectMeta};
use manifests::{
    link::{ClusterName, LinkObjects},
    yaml,
};
use mirror_core::api::{
    labels::{self, KUBECONFIG_KEY},
    link::Link,
    metadata::cluster_uid,
    text::one_line,
};
use serde_json::Value;

use crate::{
    link::existing::{Existing, keep_cluster_uid},
    link_credentials::{Evidence, KubeconfigTarget},
};

/// The objects of the file.
#[derive(Clone)]
pub struct HandedLink {
    /// Name of the target cluster.
    pub name: ClusterName,
    /// The Link. Without one, the file has new credentials for a Link that is there.
    pub link: Option<Link>,
    pub credentials: Secret,
    pub control_plane_credentials: Option<Secret>,
    /// Where the credentials of the controller lead.
    pub target: KubeconfigTarget,
}

/// The namespaces that the objects may be in.
pub struct HandedNamespaces<'n> {
    pub links: &'n str,
    pub linkerd: &'n str,
}

/// The keys of the maps in a kubeconfig that credentials of a link may have. Others run programs, read files, or mean
/// nothing.
const KUBECONFIG: [&str; 7] = [
    "apiVersion",
    "kind",
    "preferences",
    "clusters",
    "contexts",
    "users",
    "current-context",
];
const ENTRIES: [(&str, &str, &[&str]); 3] = [
    (
        "clusters",
        "cluster",
        &[
            "server",
            "certificate-authority-data",
            "insecure-skip-tls-verify",
            "proxy-url",
            "tls-server-name",
        ],
    ),
    ("contexts", "context", &["cluster", "namespace", "user"]),
    ("users", "user", &["token"]),
];

impl HandedLink {
    /// The UID of the target cluster, if it is recorded.
    pub fn uid(&self) -> Option<&str> {
        let of_link = self.link.as_ref().and_then(cluster_uid);
        of_link.or_else(|| cluster_uid(&self.credentials))
    }

    /// Whether credentials that are there already lead to the same cluster.
    pub fn evidence(&self, old: &KubeconfigTarget) -> Evidence {
        let uid = |of: &KubeconfigTarget| of.account.as_ref().and_then(|own| own.uid.clone());
        let has_account = uid(old).is_some() && uid(old) == uid(&self.target);
        if has_account || old.server == self.target.server {
            Evidence::Same
        } else {
            Evidence::Elsewhere
        }
    }

    /// The objects to apply. `existing` is what there is of the link.
    pub fn objects(&self, existing: &Existing<'_>) -> anyhow::Result<LinkObjects> {
        let link = match (&self.link, existing.link) {
            (Some(link), _) => link.clone(),
            (None, Some(old)) => Link {
                metadata: ObjectMeta {
                    name: old.metadata.name.clone(),
                    namespace: old.metadata.namespace.clone(),
                    labels: old.metadata.labels.clone(),
                    annotations: old.metadata.annotations.clone(),
                    ..ObjectMeta::default()
                },
                spec: old.spec.clone(),
                status: None,
            },
            (None, None) => {
                return Err(fail(
                    format!(
                        "the file has no Link, and there is no Link {}; nothing was applied",
                        self.name
                    ),
                    "ask for a file with the Link, as `link-gen` and `fleet credentials --with-link` write it",
                ));
            }
        };
        let mut objects = LinkObjects {
            credentials: self.credentials.clone(),
            control_plane_credentials: self.control_plane_credentials.clone(),
            link,
        };
        if let Some(old) = existing.link.filter(|_| !existing.is_of_another) {
            keep_cluster_uid(old, &mut objects.link);
            existing.keep_fleet(&mut objects);
        }
        Ok(objects)
    }

    /// Where the credentials lead, a line each.
    pub fn ways(&self) -> Vec<String> {
        let secrets = [
            ("the controller", Some(&self.credentials)),
            ("Linkerd", self.control_plane_credentials.as_ref()),
        ];
        let ways = secrets.into_iter().filter_map(|(who, secret)| {
            let bytes = &kubeconfig_in(secret?)?.0;
            let target = KubeconfigTarget::of(bytes)?;
            let account = target.account.as_ref();
            let account = account.map_or_else(
                || "an unknown account".to_owned(),
                |of| format!("the account {}/{}", of.namespace, of.name),
            );
            let proxy = match target.proxy.shown().as_str() {
                "" => String::new(),
                proxy => format!(", through the proxy {proxy}"),
            };
            let tls = match insecure_tls(bytes) {
                Some(_) => ", WITHOUT VERIFIED TLS",
                None => "",
            };
            let way = format!(
                "{who} connects to {} as {account}{proxy}{tls}",
                target.server
            );
            Some(one_line(&way))
        });
        ways.collect()
    }

    /// Reads the text of a file. Fails if it is anything else than a link, or than one with these namespaces. Errors do not
    /// quote it, because it has credentials.
    pub fn read(file: &str, text: &str, in_: &HandedNamespaces<'_>) -> anyhow::Result<Self> {
        Self::try_read(text, in_).map_err(|why| {
            fail(
                format!("refused {file}: {}; nothing was applied", one_line(&why)),
                "take the file as `fleet credentials` or `link-gen` of the target cluster wrote it, and ask its owner if it \
                 is",
            )
        })
    }

    fn try_read(text: &str, in_: &HandedNamespaces<'_>) -> Result<Self, String> {
        let documents = yaml::documents(text).map_err(|_| "it is not valid YAML")?;
        let (mut link, mut own, mut of_linkerd) = (None, None, None);
        for document in documents.iter().filter(|document| !document.is_null()) {
            let object = HandedObject::of(document)?;
            let place = match (object.kind, object.namespace) {
                ("Link", namespace) if namespace == in_.links => {
                    only(&object, &mut link)?;
                    continue;
                }
                ("Secret", namespace) if namespace == in_.links => &mut own,
                ("Secret", namespace) if namespace == in_.linkerd => &mut of_linkerd,
                _ => {
                    return Err(format!(
                        "{object} is in the namespace {:?}, and a link's objects are in {} and {}",
                        object.namespace, in_.links, in_.linkerd
                    ));
                }
            };
            only(&object, place)?;
        }
        let own: Secret = own.ok_or("it has no Secret with credentials for the controller")?;
        let secret = own.name_any();
        let name = ClusterName::in_secret(&secret);
        let name = name.and_then(|name| name.parse::<ClusterName>().ok());
        let name = name.ok_or_else(|| format!("{secret:?} is not the name of a link's Secret"))?;
        if let Some(link) = &link {
            check_link(link, &name)?;
        }
        let of_linkerd: Option<Secret> = of_linkerd;
        for secret in std::iter::once(&own).chain(&of_linkerd) {
            check_secret(secret, &name)?;
        }
        let target = KubeconfigTarget::of_secret(&own);
        Ok(Self {
            target: target.ok_or("its kubeconfig names no API server")?,
            name,
            link,
            credentials: own,
            control_plane_credentials: of_linkerd,
        })
    }
}

/// An object that may be one of a link.
struct HandedObject<'o> {
    value: &'o Value,
    kind: &'o str,
    namespace: &'o str,
    name: &'o str,
}

impl std::fmt::Display for HandedObject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the {} {:?}", self.kind, self.name)
    }
}

impl<'o> HandedObject<'o> {
    /// An object with nothing that those of a link do not have.
    fn of(value: &'o Value) -> Result<Self, String> {
        let text = |path: &str| value.pointer(path).and_then(Value::as_str);
        let kind = text("/kind").unwrap_or_default();
        let object = Self {
            value,
            kind,
            namespace: text("/metadata/namespace").unwrap_or_default(),
            name: text("/metadata/name").unwrap_or_default(),
        };
        let own: &[&str] = match (text("/apiVersion").unwrap_or_default(), kind) {
            ("v1", "Secret") => &["apiVersion", "kind", "metadata", "type", "data"],
            ("multicluster.linkerd.io/v1alpha3", "Link") => {
                &["apiVersion", "kind", "metadata", "spec"]
            }
            _ => {
                let (kind, name) = (kind, object.name);
                return Err(format!(
                    "it has the {kind:?} {name:?}, and a link has only Secrets and a Link"
                ));
            }
        };
        check_keys(value, own, &object)?;
        let metadata = &value["metadata"];
        check_keys(
            metadata,
            &["name", "namespace", "labels", "annotations"],
            &object,
        )?;
        for map in ["labels", "annotations"] {
            let keys = metadata[map].as_object().into_iter().flatten();
            let mut keys = keys.map(|(key, _)| key);
            let is_own = |key: &&String| {
                let domain = key.split_once('/').map_or("", |(domain, _)| domain);
                domain == "linkerd.io"
                    || domain.ends_with(".linkerd.io")
                    || *key == labels::SYNC_WAVE
            };
            if let Some(key) = keys.find(|key| !is_own(key)) {
                return Err(format!("{object} has {key:?} in its {map}"));
            }
        }
        Ok(object)
    }
}

/// Decodes the only object of its place.
fn only<T: serde::de::DeserializeOwned>(
    object: &HandedObject<'_>,
    place: &mut Option<T>,
) -> Result<(), String> {
    if place.is_some() {
        return Err(format!("{object} is the second of its kind"));
    }
    let decoded = serde_json::from_value(object.value.clone());
    *place = Some(decoded.map_err(|_| format!("{object} cannot be decoded"))?);
    Ok(())
}

/// Fails if a map has other keys, or if it is none.
fn check_keys(
    value: &Value,
    allowed: &[&str],
    what: &impl std::fmt::Display,
) -> Result<(), String> {
    let map = value
        .as_object()
        .ok_or_else(|| format!("{what} is not complete"))?;
    match map.keys().find(|key| !allowed.contains(&key.as_str())) {
        Some(key) => Err(format!("{what} has {key:?}, which a link's never has")),
        None => Ok(()),
    }
}

fn check_link(link: &Link, name: &ClusterName) -> Result<(), String> {
    let (own, spec) = (link.name_any(), &link.spec);
    for (what, found, expected) in [
        ("its Link has the name", &own, name.to_string()),
        (
            "its Link has the cluster",
            &spec.target_cluster_name,
            name.to_string(),
        ),
        (
            "its Link has the Secret",
            &spec.cluster_credentials_secret,
            name.credentials_secret(),
        ),
    ] {
        if *found != expected {
            return Err(format!("{what} {found:?}, and not {expected}"));
        }
    }
    Ok(())
}

/// Fails if a Secret has something else than the credentials of this cluster.
fn check_secret(secret: &Secret, name: &ClusterName) -> Result<(), String> {
    let path = path(secret);
    if secret.name_any() != name.credentials_secret() {
        return Err(format!(
            "{path} is not called {}",
            name.credentials_secret()
        ));
    }
    if secret.type_.as_deref() != Some(labels::CREDENTIALS_TYPE) {
        return Err(format!(
            "{path} is not of the type {}",
            labels::CREDENTIALS_TYPE
        ));
    }
    let cluster = secret.labels().get(labels::CREDENTIALS_CLUSTER);
    if cluster.is_some_and(|cluster| *cluster != name.to_string()) {
        return Err(format!("{path} has the label of another cluster"));
    }
    check_credentials(secret)
}

/// Fails if a Secret has something else than a kubeconfig with one cluster and one token, such as one that runs a program
/// or reads a file. The error does not quote it.
pub fn check_credentials(secret: &Secret) -> Result<(), String> {
    let path = path(secret);
    let keys = secret.data.iter().flatten().map(|(key, _)| key.as_str());
    if !keys.eq([KUBECONFIG_KEY]) {
        return Err(format!("{path} has other data than a kubeconfig"));
    }
    let bytes = kubeconfig_in(secret).map(|kubeconfig| kubeconfig.0.as_slice());
    let text = std::str::from_utf8(bytes.unwrap_or_default()).ok();
    let parsed = text.and_then(|text| yaml::from_yaml::<Value>(text).ok());
    let parsed = parsed.ok_or_else(|| format!("the kubeconfig of {path} is not valid YAML"))?;
    check_kubeconfig(&parsed, &format!("the kubeconfig of {path}"))
}

fn path(secret: &Secret) -> String {
    let (name, namespace) = (secret.name_any(), secret.namespace().unwrap_or_default());
    format!("the Secret {name:?} in {namespace}")
}

/// Fails if a kubeconfig has more than one cluster and one token.
fn check_kubeconfig(kubeconfig: &Value, what: &String) -> Result<(), String> {
    check_keys(kubeconfig, &KUBECONFIG, what)?;
    let mut names = Vec::new();
    for (list, entry, keys) in ENTRIES {
        let entries = kubeconfig[list].as_array();
        let Some([only]) = entries.map(Vec::as_slice) else {
            return Err(format!("{what} does not have exactly one of its {list}"));
        };
        check_keys(only, &["name", entry], &format!("{what}, in {list},"))?;
        check_keys(&only[entry], keys, &format!("{what}, in {list},"))?;
        let texts = |value: &Value| value.is_string() || value.is_boolean();
        let mut values = only[entry].as_object().into_iter().flatten();
        if values.any(|(_, value)| !texts(value)) {
            return Err(format!("{what} has something else than text in {list}"));
        }
        names.push(&only["name"]);
    }
    let context = &kubeconfig["contexts"][0]["context"];
    let used = [
        &context["cluster"],
        &kubeconfig["current-context"],
        &context["user"],
    ];
    if names != used || kubeconfig["users"][0]["user"]["token"].is_null() {
        return Err(format!("{what} does not use its cluster with its token"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
