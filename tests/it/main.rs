//! Tests against real control planes. One binary: it links once, and its tests share the control planes.
//!
//! [`support`] has what they share. Beside it, each module holds the behaviour that the line above it names, and uses
//! none of the others. README.md leads from each situation to its tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(
    clippy::panic,
    clippy::print_stderr,
    reason = "a test says why it failed"
)]
#![expect(clippy::large_futures, reason = "a test's stack is large enough")]

// The program, control planes, controllers, objects, and ways to wait: no tests.
mod support;

// Mirrors

// Which labels and annotations for other tools, as Argo CD, a mirror has.
mod copied_metadata;
// Services without endpoints, gateways or hosts, or that cannot be mirrored; Links that change in nothing that matters.
mod edge_cases;
// Headless Services, whose hosts have mirrors of their own.
mod headless;
// Gateway mode and remote discovery: what a mirror has, and that it follows its Service.
mod mirroring;
// Mirrors of Linkerd's service mirror are adopted, edited ones repaired, Services of users left alone.
mod ownership;
// Nothing is written at rest, and no more than is needed when there is much to do.
mod writes;

// Federated Services

// A drained cluster leaves them, keeps its mirrors, and comes back.
mod drain;
// Members of three clusters join, change and leave.
mod federated;
// Members prefer a cluster; routes fail over and back.
mod preferences;
// Members of other clusters are reached through gateways.
mod through_gateways;

// Links, credentials and gateways

// Credentials that are missing, malformed, new, expired, or of another cluster.
mod credentials;
// Two installations in one cluster, and one that moves to another namespace.
mod installations;
// Links and namespaces are created, edited and deleted.
mod lifecycle;
// Gateways that die, come back, or have no address; and their probes.
mod liveness;
// Which addresses of gateways are refused.
mod networks;
// What `kubectl` shows of Links, and what their status says.
mod status;
// Links whose connection is not encrypted or not verified.
mod tls;
// Links that cannot be read, and Links that change to another cluster.
mod unreadable;

// Restarts and failures

// A source cluster without free ClusterIPs.
mod cluster_ips;
// The controller is killed at each write, and each event comes late or is lost.
mod crashes;
// Networks and API servers that fall silent, break, refuse or die.
mod faults;
// Replicas: one leads, and another takes over.
mod leader;
// Target clusters that are away for long, restored from a backup, or rebuilt.
mod outages;
// What changed while no controller ran.
mod restart;
// Changes and faults at random for minutes; `just soak` runs it.
mod soak;
// What cannot make progress takes no CPU, and delays nothing else.
mod stalls;
// Watches that are refused or fall silent, and those of Services without a selector.
mod watches;

// What target clusters and a stolen token can do

// The admission policies refuse what the controller does not write.
mod admission_policy;
// Endpoints that others made under the name of a mirror.
mod foreign;
// Large and misleading Services, and clusters that are linked both ways.
mod hostile_objects;
// Target clusters whose API servers do harm; `just hostile` runs it for longer.
mod hostile_target;
// Namespaces and federated Services that a target cluster may use.
mod import_policy;
// Limits on what is accepted from a target cluster.
mod limit;
// What a target cluster says is logged and shown on one line, and cut.
mod log_injection;
// The roles are sufficient, and each verb in them is used.
mod rbac;
// No log, status, Event, metric or output has credentials.
mod secrets;

// Commands

// `allow` and `revoke`.
mod allow;
// `check`, `status`, `gateways` and `graph` of two linked clusters.
mod check;
// The Helm chart.
mod chart;
// Each example of each help text works.
mod examples;
// `hand-back`.
mod hand_back;
// The help texts.
mod help;
// `install`: its objects are accepted, and the CRD fits the type.
mod install;
// `link`, and what `plan` says before it.
mod link;
// `link-gen`.
mod link_gen;
// The program as a plugin of kubectl.
mod names;
// `plan`.
mod plan;
// `rotate`.
mod rotate;
// `unlink` and `uninstall`.
mod unlink;
// `--version`, and the metric of the build.
mod version;
