//! The failover drill: a federated Service with a member in each cluster, of which one goes away and comes back.

use tokio::time::{Instant, timeout_at};

use super::run::{PAUSE, Run, STEP, StepFinding};
use crate::{
    api::labels::{FEDERATED, FEDERATED_MEMBERS},
    clusters::{
        canaries::{
            LOCAL_SERVER, Role, SERVER,
            dial::Question,
            mirrors::{MirrorWatch, SeenMirror},
            pods, services,
        },
        snapshot::Known,
    },
    verify::CanaryService,
};

/// So many answers of one member in a row show that there is no other one.
const IN_A_ROW: usize = 10;

impl Run<'_> {
    /// Adds a member of the source cluster, takes the one of the target cluster away, and swaps them.
    pub(super) async fn drill(
        &mut self,
        watch: &MirrorWatch,
        service: &CanaryService,
        mirror: &SeenMirror,
    ) {
        let mode = Some(service.mode);
        self.progress.say("failing over");
        let began = Instant::now();
        let joined = self.join(watch, service).await;
        let has_joined = joined.is_ok();
        self.record(mode, "local member", began, joined);
        if !has_joined {
            return;
        }
        let began = Instant::now();
        let failed_over = self.swap(mirror, &[(SERVER, false)], LOCAL_SERVER).await;
        self.record(mode, "failover", began, failed_over);
        let began = Instant::now();
        let back = [(SERVER, true), (LOCAL_SERVER, false)];
        let failed_back = self.swap(mirror, &back, SERVER).await;
        self.record(mode, "failback", began, failed_back);
    }

    /// Starts a server in the source cluster, with a Service, and waits until it is a member. Whether it answers is not
    /// asked: the client's balancer may prefer the other member for minutes.
    async fn join(&self, watch: &MirrorWatch, service: &CanaryService) -> Known<StepFinding> {
        let (source, canaries) = (&self.pair.source, &self.canaries);
        self.start_pod(source, LOCAL_SERVER, Role::Server).await?;
        let mut labels = service.labels.clone();
        let (_, value) = FEDERATED_MEMBERS.split_once('=').unwrap_or_default();
        labels.insert(FEDERATED.to_owned(), value.to_owned());
        services::create(source, canaries, &service.name, &labels).await?;
        let find = watch.until(|mirrors| mirrors.existing(&service.mirror)?.joined);
        match timeout_at(self.limit(), find).await {
            Ok(at) => Ok(StepFinding {
                at,
                detail: format!("{LOCAL_SERVER} is a member of {}", service.mirror),
            }),
            Err(_) => Err(format!(
                "{} has no member of this cluster after {} s",
                service.mirror,
                STEP.as_secs()
            )),
        }
    }

    /// Gives servers the label that their Services select, or takes it away, and waits until only one server answers.
    async fn swap(
        &self,
        mirror: &SeenMirror,
        servers: &[(&str, bool)],
        wanted: &str,
    ) -> Known<StepFinding> {
        for (server, is_selected) in servers {
            let cluster = if *server == LOCAL_SERVER {
                &self.pair.source
            } else {
                &self.pair.target
            };
            pods::select(cluster, &self.canaries.namespace, server, *is_selected).await?;
        }
        self.answered_by(mirror, wanted).await
    }

    /// Lets the client send requests until this server answers so many in a row. Returns when it answered the first one.
    async fn answered_by(&self, mirror: &SeenMirror, server: &str) -> Known<StepFinding> {
        let address = mirror.cluster_ip.as_deref().unwrap_or_default();
        let (mut sent, mut failed, mut row) = (0, 0, 0);
        let mut first = Instant::now();
        let mut last = String::new();
        let asking = async {
            loop {
                sent += 1;
                match self.ask(address, Question::Name).await {
                    Ok(name) if name == server => {
                        row += 1;
                        if row == 1 {
                            first = Instant::now();
                        }
                        if row == IN_A_ROW {
                            return first;
                        }
                    }
                    Ok(other) => {
                        row = 0;
                        last = format!("{other} answered last");
                    }
                    Err(why) => {
                        row = 0;
                        failed += 1;
                        last = why;
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        match timeout_at(self.limit(), asking).await {
            Ok(at) => Ok(StepFinding {
                at,
                detail: format!("{server} answers; {failed} of {sent} requests failed"),
            }),
            Err(_) => Err(format!(
                "{server} did not answer {IN_A_ROW} requests in a row; {failed} of {sent} failed: {last}"
            )),
        }
    }
}
