//! Kubeconfigs that cannot work, most of them with secrets.

use std::time::Duration;

use futures::{StreamExt as _, stream};

use super::program::{Limits, Place, nothing};

/// A kubeconfig with these fields of the cluster and the user (YAML flow syntax).
fn with(cluster: &str, user: &str) -> String {
    format!(
        "current-context: x
contexts:
- {{name: x, context: {{cluster: x, user: x}}}}
clusters:
- {{name: x, cluster: {{server: 'https://127.0.0.1:1', {cluster}}}}}
users:
- {{name: x, user: {{{user}}}}}
"
    )
}

/// A kubeconfig whose exec plugin runs this script, which gets secrets.
fn plugin(script: &str) -> String {
    let exec = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, '{script}', s3cret], \
         env: [{{name: KEY, value: s3cret}}], interactiveMode: Never}}"
    );
    with("", &exec)
}

/// Not kubeconfigs, or not whole.
const TEXTS: [&str; 14] = [
    "",
    "s3cret",
    "[s3cret]",
    "\u{feff}{}",
    "\0s3cret",
    "current-context: not-there",
    "current-context: x",
    "current-context: x\ncontexts: [{name: x}]",
    "current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]",
    "current-context: x\ncontexts: [{name: x, context: {cluster: x}}]\nclusters: [{name: x}]",
    "current-context: x\ncontexts: [{name: x, context: {cluster: x}}]\nclusters: [{name: x, cluster: {server: ''}}]",
    "users:\n- name: me\n  user:\n    token: s3cret\n   password: s3cret\n",
    "users: [{name: x, user: {token: \"s3cret}}]",
    "a: &a [*a]",
];
/// Fields of a cluster.
const CLUSTERS: [&str; 9] = [
    "server: 's3cret s3cret'",
    "certificate-authority: /missing/s3cret",
    "certificate-authority-data: s3cret",
    "certificate-authority-data: czNjcmV0",
    "proxy-url: 'http://me:s3cret@127.0.0.1:1'",
    "proxy-url: 'gopher://me:s3cret@proxy'",
    "proxy-url: s3cret",
    "tls-server-name: 's3cret s3cret'",
    "insecure-skip-tls-verify: s3cret",
];
/// Fields of a user.
const USERS: [&str; 11] = [
    "token: \"s3cret\\n\"",
    "token: \"s3cret\\u0007\"",
    "token: [s3cret]",
    "tokenFile: /missing/s3cret",
    "username: \"s3cret\\n\", password: s3cret",
    "client-certificate: /missing/s3cret, client-key: /missing/s3cret",
    "client-certificate-data: s3cret, client-key-data: s3cret",
    "client-certificate-data: czNjcmV0, client-key-data: czNjcmV0",
    "auth-provider: {name: s3cret, config: {}}",
    "auth-provider: {name: gcp, config: {cmd-path: echo, cmd-args: s3cret, token-key: s3cret}}",
    "exec: {command: '/missing/plugin --token s3cret'}",
];
/// Scripts of plugins.
const PLUGINS: [&str; 8] = [
    "exec sleep 60",
    "yes s3cret",
    "echo s3cret; exit 7",
    "echo s3cret; kill -9 $$",
    "echo s3cret: [",
    "echo \"{apiVersion: client.authentication.k8s.io/v1, status: {token: s3cret, expirationTimestamp: s3cret}}\"",
    "echo \"{apiVersion: client.authentication.k8s.io/v1, status: {clientCertificateData: s3cret, clientKeyData: s3cret}}\"",
    "echo \"{apiVersion: client.authentication.k8s.io/v1, status: {token: s3cret}}\"",
];
/// Commands that read one.
const COMMANDS: [&str; 4] = [
    "check --wait 0s --timeout 500ms",
    "gateways --wait 500ms",
    "plan x --request-timeout 500ms",
    "status --request-timeout 500ms",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubeconfigs_that_cannot_work_are_errors_without_secrets() {
    let texts = TEXTS.iter().map(|text| (*text).to_owned());
    let clusters = CLUSTERS.iter().map(|fields| with(fields, "token: s3cret"));
    let users = USERS.iter().map(|fields| with("", fields));
    let plugins = PLUGINS.iter().map(|script| plugin(script));
    let all = texts.chain(clusters).chain(users).chain(plugins);
    let limits = &Limits {
        codes: &[1],
        ends_within: Duration::from_secs(8),
    };
    // Each command has every fifth of them.
    let runs = stream::iter(all.zip(COMMANDS.iter().cycle())).map(async |(text, command)| {
        let args: Vec<&str> = command.split(' ').collect();
        let found = Place::with(&text).run(&args, limits).await;
        found
            .into_iter()
            .map(|what| format!("{text}: {what}"))
            .collect::<Vec<_>>()
    });
    nothing(&runs.buffer_unordered(8).concat().await);
}

/// The commands that read the file of a fleet, with what else they need.
const FLEET_COMMANDS: [&str; 11] = [
    "check --wait 0s",
    "drain east",
    "drain east --end",
    "fleet apply --yes",
    "fleet credentials --target east --output-dir out",
    "fleet plan",
    "fleet render --output-dir out",
    "install east",
    "rotate --yes",
    "rotate --dry-run",
    "status",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_runs_the_plugin_of_a_kubeconfig_that_a_fleet_file_names() {
    let limits = &Limits {
        codes: &[1],
        ends_within: Duration::from_secs(20),
    };
    let runs = stream::iter(FLEET_COMMANDS).map(async |command| {
        let place = Place::with(&with("", "token: s3cret"));
        let own = with("", "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [../ran], interactiveMode: Never}");
        place.write("own", &own.replace("name: x, context", "name: east, context"));
        place.write(
            "fleet.yaml",
            "name: f\nclusters: [{name: east, kubeconfig: own}, {name: west, context: x}]\nlinks: [{mesh: all}]\n",
        );
        let args: Vec<&str> = command.split(' ').chain(["--file", "../fleet.yaml"]).collect();
        let mut found = place.run(&args, limits).await;
        // What they print without that cluster is not in question here.
        found.retain(|what| what.contains("exit code") || what.contains("does not end"));
        found.extend(place.has("ran").then(|| format!("{command}: the plugin ran")));
        found
    });
    nothing(&runs.buffer_unordered(4).concat().await);

    let program = linkerd_mc::cli::command();
    let mut waiting = vec![(String::new(), &program)];
    while let Some((name, command)) = waiting.pop() {
        let inner = command.get_subcommands();
        waiting.extend(inner.map(|of| (format!("{name} {}", of.get_name()).trim().to_owned(), of)));
        if command
            .get_arguments()
            .any(|arg| arg.get_long() == Some("file"))
        {
            let mut tried = FLEET_COMMANDS.iter();
            // The page reads the file as `status` does, and then serves until it is interrupted.
            assert!(
                name == "dashboard" || tried.any(|line| line.starts_with(&name)),
                "{name} is not tried"
            );
        }
    }
}
