//! The heartbeat of a session: notices that a cluster stops responding although no watch fails, and that it responds again.

use std::time::Duration;

use client::{
    requests::{RequestError, within},
    timing::jitter,
};
use kube::{Client, core::Status};
use mirror_core::{
    api::text::in_brief,
    mirror::link_status::{ConnectionLoss, LossCause},
};
use tokio::{sync::watch as latest, time::sleep};

use super::event::{HEARTBEAT_SOURCE, Reporter, SessionEvent};
use crate::watch::ConnectionStatus;

/// Time between two heartbeats. With [`HEARTBEAT_LIMIT`] and the pings of the client, it limits how long a cluster that
/// stopped responding counts as connected.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Time between two heartbeats of a cluster that does not respond, to notice soon when it does.
const LOST_HEARTBEAT: Duration = Duration::from_secs(3);
/// Maximum time between two heartbeats of a cluster that asks for a pause.
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(60);
/// Timeout of a heartbeat.
const HEARTBEAT_LIMIT: Duration = Duration::from_secs(15);
/// Requests `/version` of the API server periodically, the cheapest request. Increments `recovered` when a request
/// succeeds after a failure, which ends the pauses of watches.
pub async fn heartbeat(client: Client, recovered: latest::Sender<u64>, reporter: &Reporter) {
    let mut was_well = true;
    loop {
        let answer = within(HEARTBEAT_LIMIT, client.apiserver_version()).await;
        let is_well = answer.is_ok();
        let (connection, pause) = match answer {
            Ok(_) => (ConnectionStatus::Alive, HEARTBEAT),
            Err(RequestError::Status(status)) => (refused(&status), after_refusal(&status)),
            Err(RequestError::Unanswered(why)) => (
                ConnectionStatus::Lost(why.to_string().into()),
                LOST_HEARTBEAT,
            ),
        };
        if is_well && !was_well {
            recovered.send_modify(|times| *times += 1);
        }
        was_well = is_well;
        // Also without a change, to update the time of the last response.
        if !reporter
            .send(SessionEvent::ConnectionStatus(HEARTBEAT_SOURCE, connection))
            .await
        {
            return;
        }
        sleep(pause + jitter(pause / 10)).await;
    }
}

/// What an error response means for the connection.
fn refused(status: &Status) -> ConnectionStatus {
    if status.code != 401 {
        // The server is reachable. The watches find out what they may read.
        return ConnectionStatus::Alive;
    }
    // The token was revoked, or has expired. Watches that are open go on for minutes, and all other requests are refused.
    ConnectionStatus::Lost(ConnectionLoss {
        why: format!(
            "the API server refuses the token: {}",
            in_brief(&status.message)
        ),
        cause: LossCause::Token,
    })
}

/// Time until the next heartbeat after an error response. A server that is overloaded or has a problem is asked again
/// soon, unless it asks for a longer pause.
fn after_refusal(status: &Status) -> Duration {
    let wish = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
    let wish = Duration::from_secs(wish.into());
    if status.code == 429 || status.code >= 500 {
        wish.clamp(LOST_HEARTBEAT, LONGEST_HEARTBEAT)
    } else {
        HEARTBEAT
    }
}
