//! The results of tasks that the engine has started.

use tokio::time::Instant;

use super::confirm::{Basis, Question, Said};
use crate::{
    api::{k8s::Service, link::LinkStatus},
    controller::apply::{Failure, Writer, Written},
    mirror::{Key, Plan, RemoteRef, ServiceOutcome},
};

/// The result of a task.
pub(super) enum Done {
    /// A plan was executed, or failed.
    Plan {
        key: Key,
        /// Whether it creates a Service with a `ClusterIP`.
        creates: bool,
        /// What it counts towards the allowance of its cluster.
        cost: usize,
        /// What it writes, to be compared with the next one.
        content: u64,
        report: Vec<ServiceOutcome>,
        /// The removals that it left out, because they are not confirmed.
        lacking: Vec<RemoteRef>,
        written: Vec<Written>,
        ended: Result<(), Failure>,
    },
    /// A Link's status was written, with the status that the API server returned, or the write failed.
    Status {
        link: String,
        uid: Option<String>,
        sent: Box<LinkStatus>,
        ended: Result<Box<LinkStatus>, String>,
    },
    /// A name that belonged to somebody else was looked up.
    LookedUp {
        name: (String, String),
        found: Result<Option<Box<Service>>, Failure>,
    },
    /// A target cluster was asked whether a Service is really not exported.
    Confirmed {
        question: Question,
        basis: Box<Basis>,
        asked: Instant,
        said: Said,
    },
}

/// Executes a plan that writes `content`. `lacking`: the removals that it left out, because they are not confirmed.
pub(super) async fn execute(
    writer: &Writer,
    key: Key,
    plan: Plan,
    content: u64,
    lacking: Vec<RemoteRef>,
) -> Done {
    let (creates, cost) = (plan.needs_cluster_ip(), plan.cost());
    let (written, ended) = writer.apply(plan.writes).await;
    Done::Plan {
        key,
        creates,
        cost,
        content,
        report: plan.report,
        lacking,
        written,
        ended,
    }
}
