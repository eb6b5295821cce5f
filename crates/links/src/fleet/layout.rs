//! The files of a fleet for Git: a folder for each cluster with its Links, the accounts of others in it, which credentials
//! it needs, and the extension. Without the content of any Secret. Pure.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use hints::suggest::ClusterFlags;
use k8s_openapi::api::core::v1::Secret;
use manifests::{
    external_secret::{external_secret, store_key},
    install::{RemoteAccess, allow},
    link::{ClusterName, LinkObjects},
    render::Manifest,
    yaml::to_yaml,
};
use mirror_core::api::labels::{self, KUBECONFIG_KEY};
use serde_json::{Value, json};

use crate::{
    fleet::{
        extension::{ExtensionFiles, Extensions},
        facts::TargetSide,
        loaded::{LoadedFleet, LoadedLink},
    },
    link::remark::Remark,
    steps::labelled,
};

/// Texts of files, by their paths in the folder.
pub type FleetFiles = BTreeMap<String, String>;

/// Folder of a cluster with the extension.
const EXTENSION: &str = "extension";
/// Folder with the accounts that others use.
const ACCOUNTS: &str = "accounts";
/// Folder with what makes its credentials.
const CREDENTIALS: &str = "credentials";
/// Folder with its Links.
const LINKS: &str = "links";
/// The folders of a cluster, in the order in which they are applied: the first has the Namespace and the CRD.
pub const PARTS: [&str; 4] = [EXTENSION, ACCOUNTS, CREDENTIALS, LINKS];
/// File in the folder of a cluster that says which credentials it needs.
pub const NOTE: &str = "credentials.md";
/// File in each folder that names the others.
pub const KUSTOMIZATION: &str = "kustomization.yaml";

/// What there is to render.
pub struct FleetLayout<'l> {
    pub loaded: &'l LoadedFleet,
    /// Name of the file, for commands.
    pub file: &'l str,
    /// The `SecretStore` of each namespace from which the External Secrets Operator takes credentials.
    pub store: Option<&'l str>,
    /// What is known of the target clusters.
    pub targets: &'l BTreeMap<ClusterName, Result<TargetSide, String>>,
    /// What becomes of the extension.
    pub extension: &'l ExtensionFiles,
    /// The files of the fleet that are there.
    pub existing: &'l FleetFiles,
}

/// The files, and what could not be rendered.
#[derive(Debug, Default)]
pub struct RenderedFleet {
    pub files: FleetFiles,
    /// Why files about links to a cluster are missing, or stay as they are.
    pub problems: BTreeMap<ClusterName, String>,
    /// Why the extension of a cluster is missing, or stays as it is.
    pub extension_problems: BTreeMap<ClusterName, String>,
    pub remarks: BTreeSet<(ClusterName, Remark)>,
}

impl RenderedFleet {
    /// Whether something is missing, or stays as it is.
    pub fn has_problems(&self) -> bool {
        !self.problems.is_empty() || !self.extension_problems.is_empty()
    }

    /// The problems, one line each.
    pub fn warnings(&self) -> Vec<String> {
        let mut said = Vec::new();
        let (links, own) = (&self.problems, &self.extension_problems);
        let clusters: BTreeSet<&ClusterName> = links.keys().chain(own.keys()).collect();
        for cluster in clusters {
            let (links, own) = (links.get(cluster), own.get(cluster));
            let same = own.filter(|own| links == Some(own));
            if let Some(why) = same {
                said.push(format!(
                    "{cluster}: {why}; its extension and the files about links to it stay as they are"
                ));
                continue;
            }
            let own = own.map(|why| format!("{cluster}: {why}; its extension stays as it is"));
            said.extend(own);
            said.extend(links.map(|why| {
                format!("{cluster}: {why}; the files about links to it stay as they are")
            }));
        }
        said
    }
}

/// Whether a file has what makes the credentials of a cluster.
pub fn is_credentials(path: &str) -> bool {
    path.split('/').nth(1) == Some(CREDENTIALS) && !path.ends_with(KUSTOMIZATION)
}

/// The first line of a file that a fleet has rendered. Only files with it are changed or removed.
pub fn mark(fleet: &str) -> String {
    format!("linkerd-mc fleet {fleet}: ")
}

impl FleetLayout<'_> {
    /// All files that should be there.
    pub fn render(&self) -> anyhow::Result<RenderedFleet> {
        let mut rendered = RenderedFleet::default();
        let mut needed: BTreeMap<&ClusterName, Vec<String>> = BTreeMap::new();
        let mut accounts = BTreeMap::new();
        for link in &self.loaded.links {
            let (source, target) = (&link.ends.source, &link.ends.target);
            let path = format!("{target}/{ACCOUNTS}/{source}.yaml");
            let access = link.access();
            let account = match accounts.entry((source, access)) {
                Entry::Occupied(made) => made.into_mut(),
                Entry::Vacant(new) => new.insert(self.account(source, access)?),
            };
            rendered.files.insert(path, account.clone());
            let rows = needed.entry(source).or_default();
            match self.objects(link, &mut rendered.remarks) {
                Ok(made) => {
                    rows.push(self.row(link, &made));
                    self.add(&mut rendered.files, link, &made)?;
                }
                Err(why) => {
                    rendered.problems.insert(target.clone(), why);
                    rows.extend(self.existing_row(link));
                    self.keep(&mut rendered.files, link);
                }
            }
        }
        for (source, rows) in needed {
            let text = self.note(source, &rows);
            rendered.files.insert(format!("{source}/{NOTE}"), text);
        }
        self.add_extensions(&mut rendered)?;
        self.add_kustomizations(&mut rendered.files)?;
        Ok(rendered)
    }

    /// The extension of each cluster. Its objects have no label of the fleet, because `fleet apply` does not install it.
    fn add_extensions(&self, rendered: &mut RenderedFleet) -> anyhow::Result<()> {
        let none = Extensions::new();
        let made = match self.extension {
            ExtensionFiles::Kept => &none,
            ExtensionFiles::Removed => return Ok(()),
            ExtensionFiles::Written(made) => made,
        };
        for cluster in &self.loaded.fleet.clusters {
            let name = &cluster.name;
            let path = format!("{name}/{EXTENSION}/install.yaml");
            let text = match made.get(name) {
                Some(Ok(made)) => Some(self.text(made.manifest.objects()?.to_vec())?),
                Some(Err(why)) => {
                    let problems = &mut rendered.extension_problems;
                    problems.insert(name.clone(), why.clone());
                    self.existing.get(&path).cloned()
                }
                None => self.existing.get(&path).cloned(),
            };
            rendered.files.extend(text.map(|text| (path, text)));
        }
        Ok(())
    }

    /// Keeps the files of a link as they are, because its target cluster is not known now.
    fn keep(&self, files: &mut FleetFiles, link: &LoadedLink) {
        let (source, target) = (&link.ends.source, &link.ends.target);
        for part in [CREDENTIALS, LINKS] {
            let path = format!("{source}/{part}/{target}.yaml");
            if let Some(text) = self.existing.get(&path) {
                files.insert(path, text.clone());
            }
        }
    }

    fn objects(
        &self,
        link: &LoadedLink,
        remarks: &mut BTreeSet<(ClusterName, Remark)>,
    ) -> Result<LinkObjects, String> {
        let target = &link.ends.target;
        let side = match self.targets.get(target) {
            Some(Ok(side)) => side,
            Some(Err(why)) => return Err(why.clone()),
            None => return Err("it was not read".to_owned()),
        };
        let mut own = Vec::new();
        let made = link.objects(self.loaded, side, None, &mut own);
        remarks.extend(own.into_iter().map(|remark| (target.clone(), remark)));
        made.map_err(|error| format!("{error:#}"))
    }

    fn add(
        &self,
        files: &mut FleetFiles,
        link: &LoadedLink,
        made: &LinkObjects,
    ) -> anyhow::Result<()> {
        let (source, target) = (&link.ends.source, &link.ends.target);
        let text = self.yaml(vec![json!(made.link)])?;
        files.insert(format!("{source}/{LINKS}/{target}.yaml"), text);
        let Some(store) = self.store else {
            return Ok(());
        };
        let key = store_key(source, target);
        let secrets = needed(made).map(|(secret, property)| {
            let mut secret = secret.clone();
            let labels = secret.metadata.labels.get_or_insert_default();
            labels.insert(labels::FLEET.to_owned(), self.loaded.fleet.name.clone());
            external_secret(store, &key, property, &secret)
        });
        let text = self.yaml(secrets.collect())?;
        files.insert(format!("{source}/{CREDENTIALS}/{target}.yaml"), text);
        Ok(())
    }

    /// The account of a source cluster.
    fn account(&self, source: &ClusterName, access: RemoteAccess) -> anyhow::Result<String> {
        let names = [source.to_string()];
        let namespace = &self.loaded.accounts;
        self.yaml(allow(namespace, &names, access, false)?.into_objects()?)
    }

    /// Objects of the fleet as a file.
    fn yaml(&self, objects: Vec<Value>) -> anyhow::Result<String> {
        let objects = objects.into_iter();
        let objects = objects.map(|object| labelled(object, &self.loaded.fleet.name));
        self.text(objects.collect())
    }

    /// Objects as a file, which is the same for all versions that make the same objects.
    fn text(&self, mut objects: Vec<Value>) -> anyhow::Result<String> {
        objects.iter_mut().for_each(forget_version);
        let text = Manifest::from_objects(objects)?.to_yaml();
        Ok(format!("{}{text}", self.header()))
    }

    fn header(&self) -> String {
        let mark = mark(&self.loaded.fleet.name);
        format!("# {mark}written by `fleet render`, which overwrites changes.\n")
    }

    /// Adds a kustomization to each folder with objects, and one to the folder of each cluster.
    fn add_kustomizations(&self, files: &mut FleetFiles) -> anyhow::Result<()> {
        let mut resources: BTreeMap<String, BTreeSet<(usize, String)>> = BTreeMap::new();
        for path in files.keys() {
            let parts: Vec<&str> = path.split('/').collect();
            if let [cluster, part, file] = parts.as_slice() {
                let folder = resources.entry(format!("{cluster}/{part}")).or_default();
                folder.insert((0, (*file).to_owned()));
                let at = PARTS.iter().position(|known| known == part);
                let whole = resources.entry((*cluster).to_owned()).or_default();
                whole.insert((at.unwrap_or(PARTS.len()), (*part).to_owned()));
            }
        }
        for (folder, resources) in resources {
            let resources = resources.into_iter().map(|(_, name)| name);
            let kustomization = json!({
                "apiVersion": "kustomize.config.k8s.io/v1beta1",
                "kind": "Kustomization",
                "resources": resources.collect::<Vec<_>>(),
            });
            let text = to_yaml(&kustomization)?;
            let path = format!("{folder}/{KUSTOMIZATION}");
            files.insert(path, format!("{}{text}", self.header()));
        }
        Ok(())
    }

    /// Which Secrets a cluster needs, and who can make them.
    fn note(&self, source: &ClusterName, rows: &[String]) -> String {
        let mark = mark(&self.loaded.fleet.name);
        let head = if self.store.is_some() {
            "| Target | Secrets | In the store | Command |\n| --- | --- | --- | --- |\n"
        } else {
            "| Target | Secrets | Command |\n| --- | --- | --- |\n"
        };
        format!(
            "<!-- {mark}written by `fleet render`, which overwrites changes. -->\n# Credentials of {source}\n\n\
             The Links of {source} need these Secrets, which are not in Git. Whoever has the context of the target cluster \
             prints them with the command.\n\n{head}{}",
            rows.concat()
        )
    }

    /// The Secrets of a link, as a row of the note.
    fn row(&self, link: &LoadedLink, made: &LinkObjects) -> String {
        let (source, target) = (&link.ends.source, &link.ends.target);
        let command = ClusterFlags::default().mc(
            "fleet credentials --file {} --target {} --source {}",
            &[self.file, &target.to_string(), &source.to_string()],
        );
        let names = needed(made).map(|(secret, _)| {
            let namespace = secret.metadata.namespace.clone().unwrap_or_default();
            format!("`{namespace}/{}`", target.credentials_secret())
        });
        let mut cells = vec![target.to_string(), names.collect::<Vec<_>>().join(", ")];
        if self.store.is_some() {
            let key = store_key(source, target);
            let properties: BTreeSet<_> = needed(made).map(|(_, property)| property).collect();
            let properties: Vec<_> = properties.into_iter().map(|of| format!("`{of}`")).collect();
            cells.push(format!("`{key}`: {}", properties.join(", ")));
        }
        format!("| {} | {command} |\n", cells.join(" | "))
    }

    /// The row of a link in the note that is there.
    fn existing_row(&self, link: &LoadedLink) -> Option<String> {
        let note = self.existing.get(&format!("{}/{NOTE}", link.ends.source))?;
        let begin = format!("| {} |", link.ends.target);
        let row = note.lines().find(|line| line.starts_with(&begin))?;
        Some(format!("{row}\n"))
    }
}

/// Removes the annotation with the version that has made an object.
pub fn forget_version(object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    let annotations = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut);
    let is_empty = annotations.is_some_and(|annotations| {
        annotations.remove(labels::CREATED_BY);
        annotations.is_empty()
    });
    if is_empty {
        metadata.remove("annotations");
    }
}

/// The credentials that a Link needs, each with the property of the store that has its kubeconfig. Linkerd has one of
/// its own if the controller goes through the gateway.
fn needed(made: &LinkObjects) -> impl Iterator<Item = (&Secret, &'static str)> {
    let own = &made.credentials.data;
    made.secrets().map(move |secret| {
        let is_shared = secret.data == *own;
        let property = if is_shared {
            KUBECONFIG_KEY
        } else {
            "linkerdKubeconfig"
        };
        (secret, property)
    })
}
