//! Tests against real control planes. They are one test binary, so cargo links it only once, and the tests share
//! control planes.
//!
//! [`support`] has the code that the tests share. Each other module tests the behaviour in the comment above it, and
//! uses no other test module. Long ones run on each change, but for those that nightly.md names.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(
    clippy::panic,
    clippy::print_stderr,
    reason = "a test says why it failed"
)]
#![expect(clippy::large_futures, reason = "a test's stack is large enough")]

// The program, control planes, controllers, objects, and functions that wait. It has no tests.
mod support;

// Mirrors

// Which labels and annotations for other tools, such as Argo CD, a mirror gets.
mod copied_metadata;
// Services without endpoints, gateways or hosts, or that cannot be mirrored; changes of Links that have no effect.
mod edge_cases;
// Headless Services, whose hosts have mirrors of their own.
mod headless;
// Gateway mode and remote discovery: the contents of a mirror, and its updates.
mod mirroring;
// Mirrors of Linkerd's service mirror are adopted, edited ones repaired, Services of users left alone.
mod ownership;
// Nothing is written while nothing changes, and no more than needed otherwise.
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

// API servers that are reached through the gateway alone.
mod api_server;
// Links, names and a CRD as people write them.
mod by_hand;
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
// Networks and API servers that stop responding, fail, or refuse requests.
mod faults;
// Replicas: one leads, and another takes over.
mod leader;
// Target clusters that are unavailable, restored from a backup, or rebuilt.
mod outages;
// A webhook that refuses mirrors, with any code or not at all.
mod refused;
// Changes while no controller ran.
mod restart;
// Changes and faults at random for minutes; `just soak` runs it.
mod soak;
// Work that cannot make progress uses no CPU, and delays nothing else.
mod stalls;
// A cluster that drops a member of a federated Service, and does not confirm this.
mod unconfirmed;
// Watches that are refused or stop responding, and slices of Services without a selector.
mod watches;

// Attacks by target clusters, and with a stolen token

// The admission policies refuse writes that the controller does not make.
mod admission_policy;
// What thieves of tokens get, as `attack` and the documents say.
mod attack;
// Endpoints that others created under the name of a mirror.
mod foreign;
// API servers whose texts hold control characters and lines that look like ours.
mod hostile_answers;
// Large and misleading Services, and clusters that are linked both ways.
mod hostile_objects;
// Target clusters with hostile API servers; `just hostile` runs it for longer.
mod hostile_target;
// Namespaces and federated Services that a target cluster may use.
mod import_policy;
// Limits on what is accepted from a target cluster.
mod limit;
// Messages of a target cluster are logged and shown on one line, and shortened.
mod log_injection;
// The roles are sufficient, and each verb in them is used.
mod rbac;
// How many requests commands send, with many Links and mirrors.
mod requests;
// The page of `dashboard` in a browser.
mod dashboard;
// The roles in the documents for people who only look.
mod viewers;
// No log, status, Event, metric or output has credentials.
mod secrets;

// Commands

// `allow` and `revoke`.
mod allow;
// `check`, `status`, `gateways` and `graph` of two linked clusters.
mod check;
// A release of the Helm chart.
mod chart;
// `diagnose`: causes that need no proxies.
mod diagnose;
// `fleet`: many links from one file.
mod fleet;
// Each example of each help text works.
mod examples;
// `verify`: canaries in two clusters.
mod verify;
// `gather`.
mod gather;
// `hand-back`.
mod hand_back;
// Printed commands use the cluster that was asked about.
mod hints;
// The container image runs alone.
mod image;
// `install`: its objects are accepted, and the CRD has all fields of the type.
mod install;
// Commands that change links, killed at each of their writes.
mod killed;
// `link`, and the plan that `plan` shows before it.
mod link;
// `link-gen`.
mod link_gen;
// The program as a plugin of kubectl.
mod names;
// `plan`.
mod plan;
// A target cluster behind a proxy: `--proxy-url`.
mod proxy;
// `rotate`.
mod rotate;
// `take-over`.
mod take_over;
// `unlink` and `uninstall`.
mod unlink;
// `--version`, and the metric with the version of the build.
mod version;
