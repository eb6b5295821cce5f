//! One client for each async runtime: its connections are driven by the runtime that opened them, and end with it.

use std::sync::{Mutex, PoisonError};

use kube::{Client, Config};
use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;

/// The clients of the runtimes that have asked for one and still run.
#[derive(Default)]
pub(crate) struct Clients(Mutex<Vec<Own>>);

/// The client of a runtime.
struct Own {
    runtime: runtime::Id,
    /// Closed when the runtime ends. Another runtime may then get its ID.
    alive: oneshot::Sender<()>,
    client: Client,
}

impl Clients {
    /// The client of the current runtime.
    pub(crate) fn here(&self, config: &Config) -> Client {
        let runtime = Handle::current().id();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|own| !own.alive.is_closed());
        if let Some(own) = all.iter().find(|own| own.runtime == runtime) {
            return own.client.clone();
        }
        let client = Client::try_from(config.clone())
            .expect("the configuration is the one that the control plane was started with");
        let (alive, end) = oneshot::channel();
        // The runtime drops this task when it ends, and with it the receiver.
        tokio::spawn(end);
        all.push(Own {
            runtime,
            alive,
            client: client.clone(),
        });
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(clients: &Clients) -> usize {
        clients.0.lock().unwrap().len()
    }

    #[test]
    fn each_runtime_has_one_client_until_it_ends() {
        let config = Config::new("https://127.0.0.1:1".parse().unwrap());
        let clients = Clients::default();
        let runtime = || runtime::Runtime::new().unwrap();
        let (first, second) = (runtime(), runtime());
        for _ in 0..3 {
            first.block_on(async { clients.here(&config) });
            second.block_on(async { clients.here(&config) });
        }
        assert_eq!(count(&clients), 2);
        drop(first);
        second.block_on(async { clients.here(&config) });
        assert_eq!(count(&clients), 1);
        drop(second);
        runtime().block_on(async { clients.here(&config) });
        assert_eq!(count(&clients), 1);
    }
}
