//! Runs each example of each help text, and each shell block of the pages for users, in a shell, against two clusters.
//! They run as they are written, except for the replacements in [`OTHERWISE`] and [`without_wait_for_create`].

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use control_plane::{ControlPlane, Lent};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use requirements::has_program;
use serde_json::{Value, json};

use crate::support::{
    controller::Controller, gateways::Gateways, installation::api_gateway, planes::installed,
    program::help, versions::has_version,
};

/// Commands that a shell runs before each example of a command, or before the first one if it is in [`READS`]. The current
/// context is `west` unless these commands change it.
#[rustfmt::skip]
const BEFORE: [(&str, &str); 16] = [
    ("install", "printf 'name: example\\nclusters: [{name: east}, {name: west}]\\nlinks: [{mesh: all}]\\n' > fleet.yaml"),
    ("link", "mkdir -p handed/west; linkerd-mc --context east link-gen --cluster-name east > handed/west/east.yaml"),
    ("allow", "kubectl config use-context east; kubectl -n linkerd-multicluster delete serviceaccount,secret --ignore-not-found west west-bound"),
    ("rotate", "linkerd-mc link --target east --source west; kubectl -n linkerd delete deployment linkerd-destination --ignore-not-found; kubectl -n linkerd create deployment linkerd-destination --image none --replicas 0; kubectl -n linkerd patch deployment linkerd-destination --subresource status --type merge -p '{\"status\":{\"observedGeneration\":1000000}}'"),
    ("unlink", "linkerd-mc link --target east --source west; kubectl -n linkerd-multicluster delete serviceaccount controller-east --ignore-not-found; kubectl -n linkerd-multicluster create serviceaccount controller-east; kubectl -n linkerd-multicluster label serviceaccount controller-east component=controller mirror.linkerd.io/cluster-name=east; linkerd-mc --context east link-gen --cluster-name east -o json 2>/dev/null | grep '\"kind\":\"Link\"' | sed 's/\"name\":\"east\"/\"name\":\"east-again\"/' | kubectl apply -f -"),
    ("take-over", "kubectl -n linkerd-multicluster delete lease service-mirror-write --ignore-not-found; linkerd-mc link --target east --source west; kubectl -n linkerd-multicluster patch deployment linkerd-multicluster-controller --subresource status --type merge -p '{\"status\":{\"observedGeneration\":1000000,\"replicas\":1,\"updatedReplicas\":1,\"readyReplicas\":1,\"availableReplicas\":1}}'"),
    ("hand-back", "kubectl -n linkerd-multicluster delete lease service-mirror-write --ignore-not-found; linkerd-mc link --target east --source west; linkerd-mc unlink east --apply --yes"),
    ("uninstall", "linkerd-mc link --target east --source west; linkerd-mc unlink east --apply --yes"),
    ("status", "kubectl --context east get service web || kubectl --context east create service clusterip web --tcp=80; kubectl --context east label --overwrite service web mirror.linkerd.io/exported=true; linkerd-mc link --target east --source west; until kubectl --context west get service web-east; do sleep 0.1; done"),
    ("traffic", "kubectl --context east get service web || kubectl --context east create service clusterip web --tcp=80; kubectl --context east label --overwrite service web mirror.linkerd.io/exported=true; linkerd-mc link --target east --source west; until kubectl --context west get service web-east; do sleep 0.1; done"),
    ("diagnose", "kubectl --context east get service web || kubectl --context east create service clusterip web --tcp=80; kubectl --context east label --overwrite service web mirror.linkerd.io/exported=true; linkerd-mc link --target east --source west; until kubectl --context west get service web-east; do sleep 0.1; done; kubectl -n default get pod client-0 || kubectl -n default run client-0 --image none --overrides '{\"spec\":{\"automountServiceAccountToken\":false}}'"),
    ("check", "printf 'name: example\\nclusters: [{name: east}, {name: west}]\\nlinks: [{mesh: all}]\\n' > fleet.yaml; kubectl --context east delete service web --ignore-not-found; while kubectl --context west get service web-east; do sleep 0.1; done; for context in east west; do echo '{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":\"service-mirror-write\",\"namespace\":\"linkerd-multicluster\"},\"spec\":{\"holderIdentity\":\"stand-in\",\"leaseDurationSeconds\":3600,\"renewTime\":\"'$(date -u +%Y-%m-%dT%H:%M:%S.000000Z)'\"}}' | kubectl --context $context apply -f -; kubectl --context $context -n linkerd-multicluster patch deployment linkerd-multicluster-controller --subresource status --type merge -p '{\"status\":{\"availableReplicas\":1,\"readyReplicas\":1,\"replicas\":1}}'; done"),
    ("fleet", "kubectl --context west -n linkerd-multicluster patch link east --type merge -p '{\"spec\":{\"excludedLabels\":null}}' || true; for c in east west; do kubectl --context $c -n linkerd create deployment linkerd-destination --image none --replicas 0 || true; kubectl --context $c -n linkerd patch deployment linkerd-destination --subresource status --type merge -p '{\"status\":{\"observedGeneration\":1000000}}'; done; printf 'name: example\\nid: docs\\nclusters: [{name: east}, {name: west}]\\nlinks: [{mesh: all}]\\n' > fleet.yaml"),
    ("dashboard", "[ -f fleet.yaml ] || printf 'name: example\\nclusters: [{name: east}, {name: west}]\\nlinks: [{mesh: all}]\\n' > fleet.yaml"),
    ("verify", "linkerd-mc link --target east --source west; echo '{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":\"service-mirror-write\",\"namespace\":\"linkerd-multicluster\"},\"spec\":{\"holderIdentity\":\"stand-in\",\"leaseDurationSeconds\":3600,\"renewTime\":\"'$(date -u +%Y-%m-%dT%H:%M:%S.000000Z)'\"}}' | kubectl --context west apply -f -"),
    ("completions", "mkdir -p ~/.zfunc ~/.config/fish/completions"),
];

/// Commands that leave the clusters as they are, so that what the first example needs is there for the next ones too.
const READS: [&str; 6] = [
    "status",
    "traffic",
    "dashboard",
    "diagnose",
    "check",
    "verify",
];

/// Replacements in examples: the text, what is run instead, and why.
const OTHERWISE: [(&str, &str, &str); 4] = [
    (
        "/usr/local/share/man/man1",
        "man1",
        "it is not this machine that is installed to",
    ),
    (
        "linkerd-mc --context west run-controller",
        "timeout --foreground --preserve-status 3 linkerd-mc --context west run-controller",
        "it runs for ever, and without --foreground it could get the signal twice, which ends it at once",
    ),
    (
        "linkerd-mc dashboard",
        "timeout --foreground --preserve-status 3 linkerd-mc dashboard",
        "the page is there until it is interrupted",
    ),
    (
        "--admin-addr 127.0.0.1:9999",
        "--admin-addr 127.0.0.1:0 --probe-address $GATEWAYS",
        "that port may be taken, and the gateways are stand-ins",
    ),
];

/// Pages in the order in which the test runs them, each with a script that runs before it. At the beginning, both
/// clusters have the extension, and no Links. Each page leaves what the next one needs. The test leaves out blocks with
/// the mark `no-run`. `tests/docs` checks that each page is in this list, or has only such blocks.
#[rustfmt::skip]
const PAGES: [(&str, &str); 15] = [
    ("README.md", "kubectl --context east create service clusterip web --tcp=80"),
    ("docs/quick-start.md", ""),
    ("docs/laptop.md", "linkerd-mc link --target east --source west --federated-through gateway"),
    ("docs/fleet.md", "linkerd-mc --context west unlink east --apply --yes"),
    ("docs/link.md", "linkerd-mc --context east unlink west --apply --yes; linkerd-mc --context west unlink east --apply --yes; kubectl --context east -n linkerd-multicluster delete serviceaccount west --ignore-not-found"),
    ("docs/export.md", "linkerd-mc link --target east --source west"),
    ("docs/federate.md", "kubectl --context east -n shop label --overwrite service web mirror.linkerd.io/exported-"),
    ("docs/install.md", ""),
    ("docs/upgrade.md", ""),
    ("docs/drain.md", ""),
    ("docs/rotate.md", "for c in east west; do kubectl --context $c create namespace linkerd-mc-rotate; done; kubectl --context east -n linkerd-mc-rotate create serviceaccount rotate-credentials; printf '{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"type\":\"kubernetes.io/service-account-token\",\"metadata\":{\"name\":\"rotate-credentials-token\",\"annotations\":{\"kubernetes.io/service-account.name\":\"rotate-credentials\"}}}' | kubectl --context east -n linkerd-mc-rotate apply -f -; kubectl --context east -n linkerd-mc-rotate wait secret/rotate-credentials-token --for=jsonpath='{.data.token}' --timeout=30s; kubectl -n linkerd create deployment linkerd-destination --image none --replicas 0; kubectl -n linkerd patch deployment linkerd-destination --subresource status --type merge -p '{\"status\":{\"observedGeneration\":1000000}}'"),
    ("docs/metrics.md", ""),
    ("docs/security.md", ""),
    ("docs/trust.md", "rm -f *.crt *.key"),
    ("docs/troubleshooting.md", "linkerd-mc --context east install | kubectl --context east apply -f -; linkerd-mc link --target east --source west"),
];

/// Programs that read our output in examples, and what is not checked without them.
const READERS: [(&str, &str); 3] = [
    ("jq", "the filter in the examples of gateways"),
    ("man", "man shows the manual page in the examples of man"),
    (
        "dot",
        "Graphviz draws the clusters in the examples of status",
    ),
];

/// Timeout of a script, in seconds.
const LIMIT: &str = "300";

/// The commands whose examples run first, and those whose examples run last, as in the life of a cluster. The examples
/// of other commands run in between.
const FIRST: [&str; 3] = ["install", "allow", "link"];
const LAST: [&str; 4] = ["take-over", "unlink", "hand-back", "uninstall"];

/// Examples of a command: each begins with a comment, and ends before an empty line.
fn examples(command: &str) -> Vec<String> {
    let help = help(command);
    let (_, text) = help
        .split_once("Examples:\n")
        .unwrap_or_else(|| panic!("{command} has no examples"));
    for line in text.lines() {
        assert!(line.len() <= 80, "wrapped on a small terminal: {line}");
    }
    let indented: Vec<&str> = text
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with("  "))
        .collect();
    let blocks = indented.split(|line| line.is_empty());
    let examples: Vec<String> = blocks
        .filter(|block| !block.is_empty())
        .map(|block| block.join("\n"))
        .collect();
    for example in &examples {
        assert!(example.trim_start().starts_with('#'), "{example}");
        assert!(example.contains("linkerd-mc "), "{example}");
    }
    examples
}

/// The shell blocks of a page that are to be run.
fn blocks(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = fs::read_to_string(path).unwrap();
    let mut blocks = Vec::new();
    for event in Parser::new(&text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) if &*info == "sh" => {
                blocks.push(Some(String::new()));
            }
            Event::End(TagEnd::CodeBlock) => blocks.push(None),
            Event::Text(text) => {
                if let Some(Some(block)) = blocks.last_mut() {
                    block.push_str(&text);
                }
            }
            _ => {}
        }
    }
    blocks.into_iter().flatten().collect()
}

fn commands() -> Vec<String> {
    let defined = linkerd_mc::cli::command();
    let shown = defined.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut commands: Vec<String> = shown.map(|sub| sub.get_name().to_owned()).collect();
    assert!(commands.len() >= 15, "{commands:?}");
    let place = |name: &str| {
        let first = FIRST.iter().position(|first| *first == name);
        let last = LAST.iter().position(|last| *last == name);
        match (first, last) {
            (Some(at), _) => at,
            (_, Some(at)) => 100 + at,
            _ => 50,
        }
    };
    commands.sort_by_key(|name| place(name));
    commands
}

/// A folder in which scripts run, with its own PATH.
struct Desk {
    folder: tempfile::TempDir,
    kubeconfig: PathBuf,
    /// The kubeconfig before any script ran.
    contexts: Vec<u8>,
    /// Address of the stand-in for gateways.
    gateways: String,
}

impl Desk {
    fn new(planes: &[&ControlPlane], gateways: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        symlink(env!("CARGO_BIN_EXE_linkerd-mc"), bin.join("linkerd-mc")).unwrap();
        symlink(planes[0].kubectl_program(), bin.join("kubectl")).unwrap();
        for (reader, checked) in READERS {
            if has_program(reader, checked) {
                continue;
            }
            // A symbolic link instead of a new file: Linux may refuse to run a file that was just written, if another
            // test starts a process at that moment.
            let stand_in = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand-ins/reads-input");
            symlink(stand_in, bin.join(reader)).unwrap();
        }
        let kubeconfig = folder.path().join("kubeconfig");
        ControlPlane::merged_kubeconfig(planes, &kubeconfig).unwrap();
        let contexts = fs::read(&kubeconfig).unwrap();
        Self {
            folder,
            kubeconfig,
            contexts,
            gateways,
        }
    }

    /// Makes the kubeconfig what it was at the beginning.
    fn use_first_context(&self) {
        fs::write(&self.kubeconfig, &self.contexts).unwrap();
    }

    /// Runs a script in bash on a pseudo terminal, and types "y" there.
    fn run(&self, script: &str) -> Output {
        let file = self.folder.path().join("script.bash");
        fs::write(&file, script).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.folder.path().join("bin");
        let mut child = Command::new("timeout")
            .args([
                LIMIT,
                "script",
                "--quiet",
                "--return",
                "--command",
                "bash -eu -o pipefail script.bash",
                "/dev/null",
            ])
            .current_dir(&self.folder)
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("GATEWAYS", &self.gateways)
            // kubectl ends before it needs memory back.
            .env("GOGC", "off")
            // The default pager of `man` would wait for a key.
            .env("MANPAGER", "cat")
            .env_remove("LINKERD_DOCKER_REGISTRY")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Standard input stays open until the end. If it is closed, `script` takes two seconds to stop.
        let mut keyboard = child.stdin.take().unwrap();
        keyboard.write_all(b"y\n").unwrap();
        child.wait_with_output().unwrap()
    }
}

/// Exit codes that an example may have. `plan` and `fleet plan` exit with 2 if there are changes. `diagnose` exits with
/// 1 if a layer is broken: here, mirrors have no Pods. `verify` exits with 1 if a step fails: here, there is no
/// injector. `attack` exits with 1 if something is open.
fn may_end_with(command: &str) -> &'static [i32] {
    match command {
        "plan" | "fleet" => &[0, 2],
        "attack" | "diagnose" | "verify" => &[0, 1],
        _ => &[0],
    }
}

fn file(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// The first minor version of kubectl that has `wait --for=create`.
const WAIT_FOR_CREATE: u32 = 31;

/// Replaces `kubectl wait --for=create`, which old versions of kubectl do not have, by a loop.
fn without_wait_for_create(line: &str) -> String {
    let Some((kubectl, object)) = line.split_once(" wait --for=create ") else {
        return line.to_owned();
    };
    let (object, _) = object.split_once(' ').unwrap();
    format!("until {kubectl} get {object}; do :; done")
}

/// Runs the blocks of each page in one shell, which prints each line before it runs it.
fn run_pages(desk: &Desk, has_wait_for_create: bool) {
    let has_openssl = has_program("openssl", "the certificates of docs/laptop.md");
    let mut count = 0;
    for (page, before) in PAGES {
        let mut blocks = blocks(page);
        blocks.retain(|block| has_openssl || !block.contains("openssl "));
        let mut commands = blocks.join("\n");
        if !has_wait_for_create {
            let lines: Vec<String> = commands.lines().map(without_wait_for_create).collect();
            commands = lines.join("\n");
        }
        desk.use_first_context();
        let script = format!("{before}\nset -v\n{commands}");
        eprintln!("# {page}\n{script}");
        let output = desk.run(&script);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{page} failed:\n{said}");
        count += blocks.len();
    }
    assert!(count >= 30, "{count}");
}

/// The filter in the examples of `gateways` selects the gateways that are not alive.
fn dead_gateways_are_selected(desk: &Desk) {
    let (jq, checked) = READERS[0];
    if !has_program(jq, checked) {
        return;
    }
    let mut examples = examples("gateways").into_iter();
    let example = examples.find(|example| example.contains(" | jq ")).unwrap();
    let (list, filter) = example.split_once(" | ").unwrap();
    let succeeds = |script: String| {
        let output = desk.run(&script);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{script}\n{said}");
    };
    succeeds(format!("{list} > gateways.json"));
    let listed = file(desk.folder.path(), "gateways.json");
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let with = |alive: bool| {
        let mut gateway = listed[0].clone();
        gateway["alive"] = json!(alive);
        gateway
    };
    assert!(listed[0]["alive"].is_boolean(), "{listed:?}");
    let both = json!([with(true), with(false)]).to_string();
    fs::write(desk.folder.path().join("both.json"), both).unwrap();
    succeeds(format!("{filter} < both.json > dead.json"));
    let dead = file(desk.folder.path(), "dead.json");
    let dead: Value = serde_json::from_str(&dead).unwrap();
    assert_eq!(dead, with(false));
}

/// Two clusters with the extension, and the folder in which scripts use them.
struct Clusters {
    // Fields are dropped in this order, so controllers end before the servers that they use.
    _controllers: [Controller; 2],
    _gateways: Gateways,
    desk: Desk,
    west: Lent,
    east: Lent,
}

impl Clusters {
    async fn start() -> Self {
        let (east, west) = tokio::join!(
            installed("east", "192.0.2.10"),
            installed("west", "192.0.2.20")
        );
        let gateways = Gateways::start();
        let desk = Desk::new(&[&west, &east], gateways.address());
        let probes = ["--probe-address", &gateways.address()];
        let controllers = [&east, &west].map(|plane| Controller::start(plane, &probes));
        Self {
            _controllers: controllers,
            _gateways: gateways,
            desk,
            west,
            east,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn every_page_works_as_it_is_written() {
    let Clusters { west, desk, .. } = &Clusters::start().await;
    let waits = "`kubectl wait --for=create` on the pages";
    run_pages(desk, has_version(west, WAIT_FOR_CREATE, waits).await);
}

/// One test for all commands, because the control planes take longer to start than most examples to run.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn every_example_of_every_help_works_as_it_is_written() {
    let clusters = &Clusters::start().await;
    let Clusters {
        west, east, desk, ..
    } = clusters;
    api_gateway(east, "10.96.0.1", "192.0.2.11").await;
    let mut count = 0;
    for command in commands() {
        let before = BEFORE.iter().find(|(of, _)| *of == command);
        let before = before.map_or("", |(_, script)| script);
        for (number, example) in examples(&command).into_iter().enumerate() {
            let mut script = example.clone();
            for (text, other, _) in OTHERWISE {
                script = script.replace(text, other);
            }
            desk.use_first_context();
            if !before.is_empty() && (number == 0 || !READS.contains(&&*command)) {
                let ready = desk.run(before);
                let said = String::from_utf8_lossy(&ready.stdout);
                assert!(ready.status.success(), "before {example}\n{said}");
            }
            eprintln!("{script}");
            let output = desk.run(&script);
            let said = String::from_utf8_lossy(&output.stdout);
            let code = output.status.code().unwrap();
            let has_failed = said.contains("Usage:") || code == 1 && said.contains("error: ");
            assert!(
                may_end_with(&command).contains(&code) && !has_failed,
                "{example}\nended with {code}:\n{said}"
            );
            count += 1;
        }
        if command == "gateways" {
            dead_gateways_are_selected(desk);
        }
    }
    assert!(count >= 35, "{count}");
    // These files have the output that examples redirect to them.
    let folder = desk.folder.path();
    for (name, text) in [
        ("values.yaml", "gateway:"),
        ("check.xml", "<testsuite "),
        (".zfunc/_linkerd-mc", "#compdef linkerd-mc"),
        (".config/fish/completions/linkerd-mc.fish", "complete "),
        ("man1/linkerd-mc-link.1", ".TH linkerd-mc-link"),
    ] {
        assert!(file(folder, name).contains(text), "{name}");
    }
    let left = west
        .kubectl(&["get", "namespace", "-o", "name"])
        .await
        .unwrap();
    assert!(!left.contains("multicluster"), "{left}");
}
