//! A stand-in for gateways: a server on loopback that answers probes, by path.

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    sync::{Arc, Mutex},
};

/// Answers every path with 200, except for those that were killed: these get 503.
#[derive(Clone)]
pub(crate) struct Gateways {
    address: SocketAddr,
    dead: Arc<Mutex<BTreeSet<String>>>,
    hosts: Arc<Mutex<Vec<String>>>,
}

impl Gateways {
    /// Starts it; it lives as long as the process.
    pub(crate) fn start() -> Self {
        Self::at("127.0.0.1:0")
    }

    /// Starts it at this address; it lives as long as the process.
    pub(crate) fn at(address: impl ToSocketAddrs) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let gateways = Self {
            address: listener.local_addr().unwrap(),
            dead: Arc::default(),
            hosts: Arc::default(),
        };
        let (dead, hosts) = (gateways.dead.clone(), gateways.hosts.clone());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().filter_map(Result::ok) {
                let mut request = [0; 1024];
                let length = stream.read(&mut request).unwrap_or_default();
                let text = String::from_utf8_lossy(&request[..length]).into_owned();
                let path = text.split(' ').nth(1).unwrap_or_default();
                let host = text.lines().find_map(|line| line.strip_prefix("host: "));
                hosts.lock().unwrap().extend(host.map(str::to_owned));
                let status = if dead.lock().unwrap().contains(path) {
                    "503 Service Unavailable"
                } else {
                    "200 OK"
                };
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        gateways
    }

    /// `host:port`, for `--probe-address`.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// The header `Host` of each request since the last call.
    pub(crate) fn hosts(&self) -> Vec<String> {
        std::mem::take(&mut self.hosts.lock().unwrap())
    }

    /// From now on, probes of this path fail.
    pub(crate) fn kill(&self, path: &str) {
        self.dead.lock().unwrap().insert(path.to_owned());
    }

    /// From now on, probes of this path succeed.
    pub(crate) fn revive(&self, path: &str) {
        self.dead.lock().unwrap().remove(path);
    }
}
