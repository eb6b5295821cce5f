//! Notices when an API server has recovered.

use std::time::Duration;

use kube::Client;
use tokio::{sync::watch as latest, time::sleep};

use crate::{client::requests::within, timing::jitter};

/// Time between two requests. A pause of a watch can grow longer than this only if the server fails for longer.
const INTERVAL: Duration = Duration::from_secs(5);
/// Time between two requests while the server does not answer, or refuses. One that starts refuses for some seconds,
/// because it does not know its roles yet.
const LOST_INTERVAL: Duration = Duration::from_secs(2);
/// Timeout of a request.
const LIMIT: Duration = Duration::from_secs(5);

/// Requests the version of an API server periodically, the cheapest request. Increments `recovered` when a request
/// succeeds after a failure, which ends the pauses of watches. Ends when no watch listens any more.
pub(in crate::controller) async fn notice_recovery(client: Client, recovered: latest::Sender<u64>) {
    let mut was_well = true;
    while !recovered.is_closed() {
        let is_well = within(LIMIT, client.apiserver_version()).await.is_ok();
        if is_well && !was_well {
            recovered.send_modify(|times| *times += 1);
        }
        was_well = is_well;
        let pause = if is_well { INTERVAL } else { LOST_INTERVAL };
        sleep(pause + jitter(pause / 10)).await;
    }
}
