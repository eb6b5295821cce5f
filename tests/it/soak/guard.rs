//! Rules that must hold at any time of a soak, and the number of writes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::watcher;
use linkerd_mc::api::labels as l;
use tokio::task::JoinHandle;

use super::scene::{NAMESPACE, Scene};
use crate::support::{
    installation::CONTROLLER,
    objects::{annotation, cluster_ip, services},
};

/// A watch of all Services. It does not go through a proxy, so no fault affects it.
pub(super) struct Guard {
    violations: Arc<Mutex<Vec<String>>>,
    watch: JoinHandle<()>,
    /// Position in the audit log at the start.
    mark: u64,
}

impl Guard {
    /// Starts the watch. All mirrors have to be correct at this time.
    pub(super) fn start(scene: &Scene) -> Self {
        let violations = Arc::new(Mutex::new(Vec::new()));
        let mark = scene.source.audit_mark().unwrap();
        let (found, api) = (violations.clone(), services(&scene.source, NAMESPACE));
        let mut known = BTreeMap::new();
        let watch = watcher(api, watcher::Config::default()).for_each(move |event| {
            let broken = match event {
                Ok(watcher::Event::Apply(service) | watcher::Event::InitApply(service)) => {
                    changed(&mut known, &service)
                }
                Ok(watcher::Event::Delete(service)) => deleted(&service),
                _ => None,
            };
            found.lock().unwrap().extend(broken);
            std::future::ready(())
        });
        Self {
            violations,
            watch: tokio::spawn(watch),
            mark,
        }
    }

    /// The number of writes of the controller by verb, and all violations.
    pub(super) async fn end(self, scene: &Scene) -> (BTreeMap<String, usize>, Vec<String>) {
        self.watch.abort();
        let _ = self.watch.await;
        let mut violations = std::mem::take(&mut *self.violations.lock().unwrap());
        let mut writes: BTreeMap<String, usize> = BTreeMap::new();
        for event in scene.source.audit_since(self.mark).unwrap() {
            if event.user != CONTROLLER || !event.is_write() || event.resource == "events" {
                continue;
            }
            let ours = match event.resource.as_str() {
                "links" => event.subresource == "status",
                _ => !["member", "guest", "kubernetes"].contains(&&*event.name),
            };
            if !ours {
                violations.push(format!("{} {}, which is not ours", event.verb, event.uri));
            }
            *writes.entry(event.verb).or_default() += 1;
        }
        (writes, violations)
    }
}

/// The violation in a change, if there is one.
fn changed(
    known: &mut BTreeMap<String, (Option<String>, String)>,
    service: &Service,
) -> Option<String> {
    let name = service.metadata.name.clone().unwrap_or_default();
    let now = (service.metadata.uid.clone(), cluster_ip(service).to_owned());
    if name == "member-federated" {
        let list = annotation(service, l::REMOTE_DISCOVERY).unwrap_or_default();
        let lost = Scene::stay().find(|member| !list.split(',').any(|one| one == member));
        if let Some(lost) = lost {
            return Some(format!("{name} lost {lost}: it has {list:?}"));
        }
        if annotation(service, l::LOCAL_DISCOVERY) != Some("member") {
            return Some(format!("{name} lost its local member"));
        }
    }
    let before = known.insert(name.clone(), now.clone())?;
    let same = before.0 == now.0;
    if same && before.1 != now.1 {
        return Some(format!("the ClusterIP of {name} changed"));
    }
    (!same && Scene::stays(&name)).then(|| format!("{name} is another one than before"))
}

fn deleted(service: &Service) -> Option<String> {
    let name = service.metadata.name.clone().unwrap_or_default();
    Scene::stays(&name).then(|| format!("{name} was deleted, and what it mirrors is there"))
}
