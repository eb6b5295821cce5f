//! A name server for the few names of the rig. It can be told not to answer.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use anyhow::Context as _;
use tokio::{net::UdpSocket, task::JoinSet};

type Names = Arc<Mutex<BTreeMap<String, Ipv4Addr>>>;

const HEADER: usize = 12;
const TYPE_A: [u8; 2] = [0, 1];
/// Short, so that an outage is noticed.
const TTL: [u8; 4] = [0, 0, 0, 2];

/// The name server. It ends when this is dropped.
pub(crate) struct Dns {
    names: Names,
    away: Arc<AtomicBool>,
    unanswered: Arc<AtomicU64>,
    server: JoinSet<()>,
}

impl Dns {
    /// Starts it on the DNS port of this address.
    pub(crate) async fn start(
        at: Ipv4Addr,
        names: BTreeMap<String, Ipv4Addr>,
    ) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind(SocketAddr::from((at, 53)))
            .await
            .context("failed to listen to questions about names")?;
        let mut dns = Self {
            names: Arc::new(Mutex::new(names)),
            away: Arc::default(),
            unanswered: Arc::default(),
            server: JoinSet::new(),
        };
        let (away, unanswered) = (dns.away.clone(), dns.unanswered.clone());
        let names = dns.names.clone();
        dns.server.spawn(async move {
            let mut packet = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut packet).await {
                if away.load(Ordering::Relaxed) {
                    unanswered.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let answer = answer(&packet[..length], &lock(&names));
                if let Some(answer) = answer {
                    let _ = socket.send_to(&answer, from).await;
                }
            }
        });
        Ok(dns)
    }

    /// Adds a name.
    pub(crate) fn know(&self, name: &str, address: Ipv4Addr) {
        lock(&self.names).insert(name.to_owned(), address);
    }

    /// Stops answering, or starts again.
    pub(crate) fn away(&self, away: bool) {
        self.away.store(away, Ordering::Relaxed);
    }

    /// Number of questions without an answer so far.
    pub(crate) fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }
}

fn lock(names: &Names) -> std::sync::MutexGuard<'_, BTreeMap<String, Ipv4Addr>> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer to a question: the address of a known name, an empty answer for other types, or an error for an unknown
/// name.
fn answer(question: &[u8], names: &BTreeMap<String, Ipv4Addr>) -> Option<Vec<u8>> {
    let mut labels = Vec::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*question.get(at)?);
        let label = question.get(at + 1..at + 1 + length)?;
        at += 1 + length;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
    }
    let kind = question.get(at..at + 2)?;
    let end = at + 4;
    let address = names.get(&labels.join("."));
    let told = address.filter(|_| kind == TYPE_A);
    // A response with recursion available, and code 3 for an unknown name.
    let code = if address.is_some() { 0 } else { 3 };
    let mut answer = question.get(..2)?.to_vec();
    answer.extend([
        0x81,
        0x80 | code,
        0,
        1,
        0,
        u8::from(told.is_some()),
        0,
        0,
        0,
        0,
    ]);
    answer.extend(question.get(HEADER..end)?);
    if let Some(address) = told {
        // A pointer to the name of the question, and a record of four bytes.
        answer.extend([0xc0, 0x0c, 0, 1, 0, 1]);
        answer.extend(TTL);
        answer.extend([0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}
