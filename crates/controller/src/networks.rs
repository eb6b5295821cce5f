//! Reads the networks of the local cluster periodically: addresses of gateways must not be in them, and mirrors must leave
//! some of the Service range free.

use std::{net::IpAddr, time::Duration};

use client::{cluster_networks, requests::explain, timing::jitter};
use kube::Client;
use mirror_core::mirror::ClusterNetworks;
use tokio::{sync::mpsc, time::sleep};

use super::{local::LocalEvent, trouble::Trouble};

/// Time between two reads. Service ranges and addresses of API servers seldom change.
const EVERY: Duration = Duration::from_secs(60);
/// Time until the next read after a failure. No gateway is used before the first success.
const AGAIN: Duration = Duration::from_secs(1);

/// Sends the networks whenever they have changed, and with each read how many `ClusterIP`s may be taken, until the
/// receiver is dropped. `server` is the address that the client uses for the API server.
pub async fn run(client: Client, server: Option<IpAddr>, outbox: mpsc::Sender<LocalEvent>) {
    let mut sent: Option<ClusterNetworks> = None;
    let mut trouble = Trouble::new("read the networks of the local cluster");
    let mut refusal =
        Trouble::new("read ServiceCIDRs, IPAddresses and the Service of the API server");
    loop {
        let pause = match cluster_networks(&client).await {
            Err(error) => {
                trouble.set(&explain(&error));
                AGAIN
            }
            Ok(observed) => {
                trouble.clear();
                match &observed.denied {
                    Some(error) => refusal.set(&explain(error)),
                    None => refusal.clear(),
                };
                if outbox
                    .send(LocalEvent::Room(observed.available_ips))
                    .await
                    .is_err()
                {
                    return;
                }
                let mut networks = observed.networks;
                networks.api_servers.extend(server);
                if sent.as_ref() != Some(&networks) {
                    sent = Some(networks.clone());
                    if outbox.send(LocalEvent::Networks(networks)).await.is_err() {
                        return;
                    }
                }
                EVERY
            }
        };
        sleep(pause + jitter(pause / 10)).await;
    }
}
