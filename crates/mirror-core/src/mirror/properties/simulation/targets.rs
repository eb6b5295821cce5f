//! Changes of Links, of target clusters and of members of the local cluster.

use std::sync::Arc;

use super::{
    super::{
        cluster::{Id, id},
        operations::{
            CLUSTERS, Form, LINK_NAMES, Limited, LinkMade, Operation, ServiceMade, remote_slice,
        },
    },
    ClusterMembership, Event, Seen, Simulation,
};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
    },
    mirror::{
        GatewayState, InvalidLink, LinkEntry, Links, Liveness, RemoteState, State, Target,
        fixtures::{at, ip},
    },
};

impl Simulation {
    pub(crate) fn relink(&mut self, link: &str, made: Option<&LinkMade>) {
        let in_charge = |state: &State| {
            CLUSTERS.map(|of| state.link(of).map(|(target, _)| target.link.clone()))
        };
        let before = in_charge(&self.state);
        self.change_link(link, made);
        // Each Link has reports of its own.
        let after = in_charge(&self.state);
        let place = |cluster: &str| CLUSTERS.iter().position(|of| *of == cluster);
        self.reports.retain(|(remote, _), _| {
            place(&remote.cluster).is_none_or(|place| before[place] == after[place])
        });
    }

    fn change_link(&mut self, link: &str, made: Option<&LinkMade>) {
        let known = self.links.remove(link);
        let Some(made) = made else {
            let keys = self
                .state
                .change_link(link, |links| drop(links.remove(link)));
            self.mark(keys);
            return;
        };
        let [own, _] = self.gateway_of(link);
        // A gateway that stays keeps its last state, but not its liveness if it is no longer probed.
        let stays = |known: &&ClusterMembership| {
            known.made.gateway && made.gateway && known.made.cluster == made.cluster
        };
        let gateway = known.as_ref().filter(stays).map(|known| GatewayState {
            liveness: if made.probe {
                known.gateway.liveness
            } else {
                Liveness::Unknown
            },
            ..known.gateway.clone()
        });
        let linked = ClusterMembership {
            made: made.clone(),
            gateway: gateway.unwrap_or_else(|| GatewayState {
                addresses: Some(vec![ip(own)]),
                liveness: Liveness::Alive,
            }),
            limited: Limited::No,
            listed: known.and_then(|known| known.listed),
        };
        let mut entry = linked.entry(link, None);
        if let Some(before) = self.state.links.get(link) {
            entry.listed.clone_from(&before.listed);
            if before.left_for(&entry).is_none() {
                entry.remote.clone_from(&before.remote);
            }
        }
        self.links.insert(link.to_owned(), linked);
        let insert = |links: &mut Links| drop(links.insert(link.to_owned(), entry));
        let keys = self.state.change_link(link, insert);
        let lane = self.lanes.entry("remote").or_default();
        lane.retain(|event| event.link() != Some(link));
        lane.push_back(Event::Synced(link.to_owned()));
        self.mark(keys);
    }

    /// Forgets all target clusters, as in a controller that has just started.
    pub(crate) fn unlist(&mut self) {
        for (link, linked) in self.links.clone() {
            let entry = linked.entry(&link, None);
            self.state.links.insert(link.clone(), entry);
            self.push("remote", Event::Synced(link));
        }
    }

    /// Forgets all target clusters, as in a controller that starts while they are away.
    pub(crate) fn lose(&mut self) {
        self.unlist();
        for lane in self.lanes.values_mut() {
            lane.retain(|event| !matches!(event, Event::Synced(_)));
        }
    }

    /// The target clusters are listed again.
    pub(crate) fn find(&mut self) {
        let links: Vec<String> = self.links.keys().cloned().collect();
        for link in links {
            self.push("remote", Event::Synced(link));
        }
    }

    /// Somebody makes a Link invalid. Returns whether there is such a Link, which was valid.
    pub(crate) fn spoil(&mut self, link: &str, form: Form) -> bool {
        let known = self.links.get(link).map(|linked| linked.made.clone());
        let Some(made) = known.filter(|made| made.form == Form::Valid) else {
            return false;
        };
        self.relink(link, Some(&LinkMade { form, ..made }));
        true
    }

    /// Whether an operation points a Link to another cluster. Then a federated Service whose only member was in the old
    /// cluster is deleted, and another one is created for a member in the new cluster.
    pub(crate) fn turns(&self, act: &Operation) -> bool {
        let Operation::Link(link, Some(made)) = act else {
            return false;
        };
        let known = self.links.get(LINK_NAMES[*link]);
        known.is_some_and(|known| known.made.cluster != made.cluster)
    }

    /// All Links are deleted, and all members leave.
    pub(crate) fn part(&mut self) {
        for link in LINK_NAMES {
            self.relink(link, None);
        }
        let members: Vec<Id> = self.members.keys().cloned().collect();
        for id in members {
            self.member(&id, None);
        }
    }

    /// Gives every headless Service an endpoint: without endpoints, its mirror keeps its present form.
    pub(crate) fn furnish(&mut self) {
        let bare: Vec<(String, Id)> = self
            .far
            .iter()
            .flat_map(|(cluster, far)| {
                let headless = far.services.iter().filter(|(_, s)| s.is_headless());
                headless.map(move |(id, _)| (cluster.clone(), id.clone()))
            })
            .collect();
        for (cluster, (namespace, name)) in bare {
            let slice = remote_slice(&namespace, &name, 0, &[(2, true)]);
            self.remote_slice(&cluster, slice, true);
        }
    }

    pub(crate) fn gateway(&mut self, link: &str, state: GatewayState) {
        let Some(linked) = self.links.get_mut(link) else {
            return;
        };
        linked.gateway = state.clone();
        let cluster = CLUSTERS[linked.made.cluster];
        if let Some(known) = self.state.links.get_mut(link) {
            *known.gateway = state;
            *known.api_gateway = linked.api_gateway();
        }
        let keys = self.state.keys_of_cluster(cluster);
        self.mark(keys);
    }

    pub(crate) fn remote(&mut self, cluster: &str, id: &Id, made: Option<&ServiceMade>) {
        self.versions += 1;
        let far = self.far.entry(cluster.to_owned()).or_default();
        let before = far.services.remove(id);
        if let Some(made) = made {
            let mut service = made.service(&id.0, &id.1);
            service.metadata.resource_version = Some(self.versions.to_string().into());
            if let Some(before) = &before {
                service.metadata.uid.clone_from(&before.metadata.uid);
                // Whether a Service is headless is immutable.
                if before.is_headless() != service.is_headless() {
                    service.metadata.uid = Some(format!("far-{}", self.versions).into());
                }
            }
            far.services.insert(id.clone(), service);
        }
        let after = far.services.get(id).cloned();
        for (link, linked) in &self.links {
            if CLUSTERS[linked.made.cluster] != cluster {
                continue;
            }
            let watches = |service: &Option<Service>| {
                service.as_ref().is_some_and(|s| linked.watches(link, s))
            };
            let event = match (watches(&before), watches(&after)) {
                (_, true) => Seen::Apply(Arc::new(after.clone().unwrap())),
                (true, false) => {
                    let mut gone = before.clone().unwrap();
                    gone.metadata.resource_version = Some(self.versions.to_string().into());
                    Seen::Delete(Arc::new(gone))
                }
                (false, false) => continue,
            };
            let lane = self.lanes.entry("remote").or_default();
            lane.push_back(Event::Remote(link.clone(), event));
        }
    }

    pub(crate) fn remote_slice(&mut self, cluster: &str, mut slice: EndpointSlice, stands: bool) {
        self.versions += 1;
        slice.metadata.resource_version = Some(self.versions.to_string().into());
        let id = id(&slice.metadata);
        let far = self.far.entry(cluster.to_owned()).or_default();
        let before = far.slices.remove(&id);
        let event = if stands {
            far.slices.insert(id, slice.clone());
            Seen::Apply(Arc::new(slice))
        } else {
            let Some(mut gone) = before else { return };
            gone.metadata.resource_version = Some(self.versions.to_string().into());
            Seen::Delete(Arc::new(gone))
        };
        for (link, linked) in &self.links {
            if CLUSTERS[linked.made.cluster] == cluster {
                let lane = self.lanes.entry("remote slices").or_default();
                lane.push_back(Event::RemoteSlice(link.clone(), event.clone()));
            }
        }
    }

    pub(crate) fn member_slice(&mut self, mut slice: EndpointSlice, stands: bool) {
        self.versions += 1;
        slice.metadata.resource_version = Some(self.versions.to_string().into());
        let id = id(&slice.metadata);
        let before = self.member_slices.remove(&id);
        let event = if stands {
            self.member_slices.insert(id, slice.clone());
            Seen::Apply(Arc::new(slice))
        } else {
            let Some(mut gone) = before else { return };
            gone.metadata.resource_version = slice.metadata.resource_version;
            Seen::Delete(Arc::new(gone))
        };
        self.push("member slices", Event::MemberSlice(event));
    }

    pub(crate) fn member(&mut self, id: &Id, made: Option<&ServiceMade>) {
        self.versions += 1;
        let before = self.members.remove(id);
        let taken = |service: &Option<Service>| {
            service
                .as_ref()
                .is_some_and(|s| s.metadata.labels.get(l::FEDERATED) == Some("member"))
        };
        let after = made.map(|made| {
            let mut service = made.service(&id.0, &id.1);
            service.metadata.resource_version = Some(self.versions.to_string().into());
            service
        });
        let event = match (taken(&before), taken(&after)) {
            (_, true) => Seen::Apply(Arc::new(after.clone().unwrap())),
            (true, false) => {
                let mut gone = before.clone().unwrap();
                gone.metadata.resource_version = Some(self.versions.to_string().into());
                Seen::Delete(Arc::new(gone))
            }
            (false, false) => return,
        };
        if let Some(after) = after.filter(|after| taken(&Some(after.clone()))) {
            self.members.insert(id.clone(), after);
        }
        self.push("members", Event::Member(event));
    }
}

impl ClusterMembership {
    fn target(&self, link: &str) -> Result<Target, InvalidLink> {
        Target::parse_object(&self.made.object(link, None), self.made.headless)
    }

    pub(crate) fn entry(&self, link: &str, remote: Option<RemoteState>) -> LinkEntry {
        let entry = LinkEntry::new(
            &self.made.object(link, self.listed.as_deref()),
            self.made.headless,
        );
        if entry.target.is_err() {
            return entry;
        }
        LinkEntry {
            // Before its drain would end, a Link with an even time of creation is new.
            linked: (self.made.created % 2 == 0).then(|| at(0)),
            remote,
            gateway: self.gateway.clone(),
            api_gateway: self.api_gateway(),
            ..entry
        }
    }

    /// The gateway that leads to the API server has the same addresses, and is not probed.
    fn api_gateway(&self) -> GatewayState {
        GatewayState {
            liveness: Liveness::Unknown,
            ..self.gateway.clone()
        }
    }

    pub(crate) fn watches(&self, link: &str, service: &Service) -> bool {
        let labels = &service.metadata.labels;
        self.target(link).is_ok_and(|target| {
            target
                .service_selectors()
                .iter()
                .any(|selector| selector.matches(labels))
        })
    }
}
