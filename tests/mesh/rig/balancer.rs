//! A load balancer in front of the gateway of `east`: new connections go where it leads now, others stay where they are.

use std::{net::Ipv4Addr, process::Command};

use super::process::{pipe, run};

/// Its address, which no Pod has.
pub(crate) const BALANCER: Ipv4Addr = Ipv4Addr::new(10, 241, 250, 1);

const TABLE: &str = "
table ip balancer {
  chain prerouting {
    type nat hook prerouting priority -100;
  }
}
";

/// The load balancer, until it is dropped.
pub(crate) struct Balancer(());

impl Balancer {
    /// Starts it, in front of a Pod.
    pub(crate) fn to(pod: Ipv4Addr) -> anyhow::Result<Self> {
        pipe(Command::new("nft").args(["-f", "-"]), TABLE)?;
        let balancer = Self(());
        balancer.lead_to(pod)?;
        Ok(balancer)
    }

    /// From now on, new connections go to this Pod.
    #[expect(clippy::unused_self, reason = "only while there is a balancer")]
    pub(crate) fn lead_to(&self, pod: Ipv4Addr) -> anyhow::Result<()> {
        let rules = format!(
            "flush chain ip balancer prerouting\n\
             add rule ip balancer prerouting ip daddr {BALANCER} tcp dport {{ 4143, 4191 }} dnat to {pod}\n"
        );
        pipe(Command::new("nft").args(["-f", "-"]), &rules).map(|_| ())
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        if let Err(error) = run("nft", &["delete", "table", "ip", "balancer"]) {
            eprintln!("mesh: failed to remove the load balancer: {error:#}");
        }
    }
}
