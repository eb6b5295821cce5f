//! The network: a bridge for each cluster, a namespace for each Pod, and the redirection into its proxy.

use std::{net::Ipv4Addr, process::Command};

use super::process::{pipe, run};

/// The user of proxies. Traffic of this user is not redirected to the proxy.
pub(crate) const PROXY_USER: &str = "2102";
/// Length of the prefix of a cluster's Pods.
const PREFIX: u8 = 24;

/// Redirects the traffic of a Pod into its proxy, as Linkerd's init container does.
const REDIRECT: &str = "
table ip linkerd {
  chain output {
    type nat hook output priority -100;
    meta skuid 2102 return
    oifname \"lo\" return
    meta l4proto tcp redirect to :4140
  }
  chain prerouting {
    type nat hook prerouting priority -100;
    tcp dport { 4190, 4191 } return
    meta l4proto tcp redirect to :4143
  }
}
";

/// Drops packets between the Pods of different clusters, except for those to the addresses in the set, and the answers.
/// The rule may also see packets within one bridge, and lets these pass.
const WALLS: &str = "
table ip walls {
  set open { type ipv4_addr; }
  chain forward {
    type filter hook forward priority 0;
    ip saddr @open accept
    ip daddr @open accept
    iifname . oifname { \"cluster1\" . \"cluster1\", \"cluster2\" . \"cluster2\", \"cluster3\" . \"cluster3\" } accept
    iifname \"cluster*\" oifname \"cluster*\" drop
  }
}
";

/// Walls between the networks of clusters, until it is dropped.
pub(crate) struct Walls(());

impl Walls {
    /// From now on, Pods of one cluster can reach only these addresses of other clusters.
    pub(crate) fn around(open: &[Ipv4Addr]) -> anyhow::Result<Self> {
        pipe(Command::new("nft").args(["-f", "-"]), WALLS)?;
        let walls = Self(());
        open.iter().try_for_each(|address| walls.open(*address))?;
        Ok(walls)
    }

    /// From now on, Pods of other clusters can reach this address too.
    #[expect(clippy::unused_self, reason = "only while there are walls")]
    pub(crate) fn open(&self, address: Ipv4Addr) -> anyhow::Result<()> {
        let element = format!("{{ {address} }}");
        run("nft", &["add", "element", "ip", "walls", "open", &element])
    }
}

impl Drop for Walls {
    fn drop(&mut self) {
        if let Err(error) = run("nft", &["delete", "table", "ip", "walls"]) {
            eprintln!("mesh: failed to take the walls down: {error:#}");
        }
    }
}

/// The network of one cluster. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Network {
    bridge: String,
    number: u8,
    used: u8,
    /// The address of the next Pod, if it is one of another cluster's network.
    lent: Option<Ipv4Addr>,
}

impl Network {
    /// Creates the network of a cluster. Pods of all clusters can reach each other, unless there are [`Walls`].
    pub(crate) fn create(number: u8) -> anyhow::Result<Self> {
        let network = Self {
            bridge: format!("cluster{number}"),
            number,
            used: 9,
            lent: None,
        };
        let address = format!("{}/{PREFIX}", network.gateway());
        let bridge = network.bridge.as_str();
        // Without an address of its own, a bridge has the lowest one of the Pods that are connected to it. When that
        // changed, Pods would send to the former address for some seconds.
        let own = format!("02:00:00:00:00:{number:02x}");
        let add = ["link", "add", bridge, "address", &own, "type", "bridge"];
        run("ip", &add)?;
        run("ip", &["addr", "add", &address, "dev", bridge])?;
        run("ip", &["link", "set", bridge, "up"])?;
        Ok(network)
    }

    /// The address at which Pods reach servers outside of Pods: Linkerd's controllers and API servers.
    pub(crate) fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 241, self.number, 1)
    }

    /// The network of the cluster's Pods.
    pub(crate) fn prefix(&self) -> String {
        format!("{}/{PREFIX}", Ipv4Addr::new(10, 241, self.number, 0))
    }

    /// The next Pod gets an address of this other network, as if the networks of both clusters overlapped: Pods of this
    /// cluster reach it, and those of the other one look for it among themselves.
    pub(crate) fn lend_from(&mut self, other: &Self) -> anyhow::Result<()> {
        let address = Ipv4Addr::new(10, 241, other.number, 250);
        self.lent = Some(address);
        let route = format!("{address}/32");
        run("ip", &["route", "replace", &route, "dev", &self.bridge])
    }

    /// An address that no Pod had before.
    pub(crate) fn next_address(&mut self) -> Ipv4Addr {
        if let Some(lent) = self.lent.take() {
            return lent;
        }
        self.used += 1;
        Ipv4Addr::new(10, 241, self.number, self.used)
    }

    /// Connects the network namespace of a process.
    pub(crate) fn connect(&self, pid: u32, address: Ipv4Addr) -> anyhow::Result<()> {
        let (pid, gateway) = (pid.to_string(), self.gateway().to_string());
        let (link, bridge) = (format!("pod{pid}"), self.bridge.as_str());
        let own = address.octets()[2] == self.number;
        let address = format!("{address}/{}", if own { PREFIX } else { 32 });
        run(
            "ip",
            &[
                "link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &pid,
            ],
        )?;
        run("ip", &["link", "set", &link, "master", bridge, "up"])?;
        let inside = |program: &str, arguments: &[&str], input: &str| {
            let mut command = Command::new("nsenter");
            command
                .arg(format!("--net=/proc/{pid}/ns/net"))
                .arg(program);
            pipe(command.args(arguments), input).map(|_| ())
        };
        inside("ip", &["link", "set", "lo", "up"], "")?;
        inside("ip", &["addr", "add", &address, "dev", "eth0"], "")?;
        inside("ip", &["link", "set", "eth0", "up"], "")?;
        let default = ["route", "add", "default", "via", &gateway];
        inside(
            "ip",
            &[&default[..], &["dev", "eth0", "onlink"]].concat(),
            "",
        )?;
        inside("nft", &["-f", "-"], REDIRECT)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Err(error) = run("ip", &["link", "delete", &self.bridge]) {
            eprintln!("mesh: failed to remove {}: {error:#}", self.bridge);
        }
    }
}
