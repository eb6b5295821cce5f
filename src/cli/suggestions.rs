//! All commands that messages print can be pasted: this program parses its own, and those of kubectl and `linkerd` have
//! known words. They are collected from the sources, without the code of tests.

use std::{fs, path::Path};

use clap::Parser as _;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::{Cli, common::args::Global};

/// The programs whose commands are printed.
const PROGRAMS: [&str; 3] = ["linkerd-mc", "kubectl", "linkerd"];
/// What a placeholder stands for. It is a valid name of anything.
const SAMPLE: &str = "x";

/// The commands in some sources.
#[derive(Debug, Default)]
struct PrintedCommands {
    /// Templates of [`hints::suggest::ClusterFlags`], with their programs.
    templates: Vec<String>,
    /// Commands in backticks, in string literals.
    literals: Vec<String>,
    /// Places that give a command no flags of a cluster, or flags that nobody gave.
    unnamed: usize,
    /// Calls whose template is not a literal.
    hidden: usize,
}

impl PrintedCommands {
    fn collect(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) if is_comment(group) => {}
                TokenTree::Group(group) => self.collect(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                        self.literals.extend(commands(&text.value()));
                    }
                }
                TokenTree::Ident(name) if name == "ClusterFlags" => {
                    let made = tokens.get(at + 3).map(ToString::to_string);
                    let is_made = made.is_some_and(|of| of == "default" || of == "of_context");
                    self.unnamed += usize::from(is_made);
                }
                TokenTree::Ident(method) => {
                    self.call(&method.to_string(), &tokens[..at], &tokens[at + 1..]);
                }
                TokenTree::Punct(_) => {}
            }
        }
    }

    /// A call such as `flags.mc("check", &[])`.
    fn call(&mut self, method: &str, before: &[TokenTree], after: &[TokenTree]) {
        let program = match method {
            "mc" => "linkerd-mc",
            "kubectl" | "linkerd" => method,
            _ => return,
        };
        let is_call = matches!(before.last(), Some(TokenTree::Punct(dot)) if dot.as_char() == '.');
        let Some(TokenTree::Group(arguments)) = after.first().filter(|_| is_call) else {
            return;
        };
        if arguments.delimiter() != Delimiter::Parenthesis {
            return;
        }
        match arguments.stream().into_iter().next() {
            Some(TokenTree::Literal(template)) => {
                let template: syn::LitStr = syn::parse_str(&template.to_string()).unwrap();
                self.templates
                    .push(format!("{program} {}", template.value()));
            }
            _ => self.hidden += 1,
        }
    }
}

/// Whether these are the brackets of `#[doc = "…"]`, which a comment is.
fn is_comment(group: &Group) -> bool {
    let first = group.stream().into_iter().next();
    matches!(first, Some(TokenTree::Ident(name)) if name == "doc")
}

/// The commands in backticks of a text.
fn commands(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let begins = |command: &&str| {
        PROGRAMS
            .iter()
            .any(|program| command.starts_with(&format!("{program} ")))
    };
    // Commands of the original are only mentioned: nobody is told to run them.
    let quoted = quoted.filter(|command| !command.starts_with("linkerd multicluster"));
    quoted.filter(begins).map(str::to_owned).collect()
}

/// All sources of the program, and the commands in them.
fn found() -> PrintedCommands {
    let mut found = PrintedCommands::default();
    each_source(|_, tokens| found.collect(tokens));
    found
}

/// Reads all sources, each with its path.
fn each_source(mut read: impl FnMut(&str, TokenStream)) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut waiting = vec![root.join("src"), root.join("crates")];
    while let Some(path) = waiting.pop() {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            waiting.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if path.extension().is_some_and(|kind| kind == "rs")
            && ![
                "tests.rs",
                "fixtures.rs",
                "suggestions.rs",
                "documents.rs",
                "suggest.rs",
            ]
            .contains(&name)
            && !path.components().any(|part| part.as_os_str() == "tests")
        {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\n");
            let text = text.take_while(|part| {
                !part
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .ends_with("mod tests {")
            });
            let text: String = text.collect();
            let path = path.strip_prefix(root).unwrap().to_str().unwrap();
            read(path, text.parse().unwrap());
        }
    }
}

/// A command with a sample for each placeholder, as its words; several if they are piped.
fn words(command: &str) -> Vec<Vec<String>> {
    let mut filled = String::new();
    let mut rest = command;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        filled.push_str(SAMPLE);
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    filled.push_str(rest);
    let parts = filled.split(" | ");
    let words = |part: &str| part.split_whitespace().map(str::to_owned).collect();
    parts.map(words).collect()
}

/// What kubectl is asked to do: verbs with their flags. Flags that name the cluster are known for all.
const KUBECTL: [(&str, &[&str]); 12] = [
    ("annotate", &["--overwrite"]),
    ("apply", &["-f"]),
    ("config", &[]),
    ("create", &[]),
    ("delete", &["-l", "-f", "--ignore-not-found"]),
    ("edit", &[]),
    ("get", &["-l", "-o"]),
    ("label", &["--overwrite"]),
    ("logs", &["-c", "--tail"]),
    ("patch", &["--type", "-p"]),
    ("rollout", &[]),
    ("scale", &["--replicas"]),
];
/// The resources that they are for.
const RESOURCES: [&str; 27] = [
    "authorizationpolicies.policy.linkerd.io",
    "clusterprofiles.multicluster.x-k8s.io",
    "configmap",
    "deployment",
    "endpoints",
    "endpointslice",
    "endpointslices",
    "httproute",
    "grpcroute",
    "lease",
    "link",
    "links.multicluster.linkerd.io",
    "namespace",
    "pod",
    "pods",
    "pods,services",
    "restart",
    "secret",
    "serviceaccount",
    "servers.policy.linkerd.io",
    "service",
    "servicecidrs",
    "serviceprofiles.linkerd.io",
    "services",
    "status",
    "tcproute",
    "get-contexts",
];

/// Why a command is not one that can be pasted.
fn objection(words: &[String]) -> Option<String> {
    let program = words.first()?;
    if program == "linkerd-mc" {
        return Cli::try_parse_from(words)
            .err()
            .map(|error| error.to_string());
    }
    let mut words = words[1..].iter().map(String::as_str).peekable();
    let mut rest = Vec::new();
    while let Some(word) = words.next() {
        if ["-n", "--context", "--kubeconfig"].contains(&word) {
            words.next();
        } else {
            rest.push(word);
        }
    }
    let (verb, rest) = rest.split_first()?;
    if program == "linkerd" {
        let known = [
            ["check"].as_slice(),
            &["upgrade"],
            &["upgrade", "--set", "enableEndpointSlices=true"],
        ];
        let given = [&[*verb], rest].concat();
        return (!known.contains(&given.as_slice())).then(|| "unknown".to_owned());
    }
    let Some((_, flags)) = KUBECTL.iter().find(|(known, _)| known == verb) else {
        return Some(format!("unknown verb {verb}"));
    };
    let unknown = rest
        .iter()
        .filter(|word| word.starts_with('-') && **word != "-");
    let mut unknown = unknown.filter(|word| {
        let flag = word.split('=').next().unwrap_or(word);
        !flags.contains(&flag) && flag != format!("{SAMPLE}-")
    });
    if let Some(flag) = unknown.next() {
        return Some(format!("unknown flag {flag}"));
    }
    let resource = rest.iter().find(|word| !word.starts_with('-'));
    let resource = resource.map(|word| word.split('/').next().unwrap_or(word));
    match resource {
        None if *verb == "apply" || rest.contains(&"-f") => None,
        Some(known) if RESOURCES.contains(&known) || known == SAMPLE => None,
        other => Some(format!("unknown resource {other:?}")),
    }
}

#[test]
fn every_printed_command_can_be_pasted() {
    let found = found();
    assert!(
        found.templates.len() > 20,
        "only {} templates",
        found.templates.len()
    );
    assert!(
        found.literals.len() > 10,
        "only {} literals",
        found.literals.len()
    );
    assert_eq!(found.hidden, 0, "templates have to be literals");
    let all = found.templates.iter().chain(&found.literals);
    let wrong = all.flat_map(|command| {
        let parts = words(command).into_iter();
        parts.filter_map(move |words| Some(format!("{command}: {}", objection(&words)?)))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sources whose commands have no flags of a cluster, and why that is right.
#[rustfmt::skip]
const UNNAMED: [(&str, &str); 14] = [
    ("crates/mirror-core/src/mirror/link_status/conditions.rs", "`status` and `link` add the flags of the cluster"),
    ("crates/client/src/access.rs", "it makes the flags"),
    ("crates/client/src/cluster.rs", "a cluster of a test"),
    ("crates/observe/src/check/rules/", "the name of the cluster is printed before the command"),
    ("crates/observe/src/clusters/snapshot.rs", "a cluster without a client has no Links"),
    ("crates/observe/src/diagnose/subject.rs", "`diagnose` adds the flags of the source cluster"),
    ("crates/observe/src/diagnose/layer.rs", "the name of the cluster is printed before the command"),
    ("src/cli/fleet/contexts.rs", "a cluster of a file without a context"),
    ("src/cli/fleet/credentials.rs", "the name of the cluster is printed before the command: others run it"),
    ("crates/links/src/fleet/hand_over.rs", "the name of the cluster is printed before the command: others run it"),
    ("crates/links/src/fleet/layout.rs", "it is written into a file for others"),
    ("crates/links/src/fleet/removal.rs", "no context has the name of the cluster"),
    ("src/cli/rotate/remaining.rs", "the name of the cluster is printed before the command: others run it"),
    ("src/cli/link/contexts.rs", "it says that the context of the target cluster has to be added"),
];
/// Commands that use no cluster, or name one.
const ANYWHERE: [&str; 4] = [
    "linkerd-mc install --print-values",
    "linkerd-mc fleet",
    "kubectl config",
    " --context ",
];
/// Literals that mention a command, and do not tell anybody to run it.
const MENTIONED: [&str; 3] = [
    "src/cli/gather/index.rs",
    "src/cli/run_controller.rs",
    "crates/manifests/src/",
];

#[test]
fn every_printed_command_names_its_cluster() {
    let mut wrong = Vec::new();
    let mut used = Vec::new();
    each_source(|path, tokens| {
        let mut of_file = PrintedCommands::default();
        of_file.collect(tokens);
        of_file.literals.retain(|command| {
            !ANYWHERE.iter().any(|known| command.contains(known))
                && !MENTIONED.iter().any(|known| path.starts_with(known))
        });
        let is_clean = of_file.literals.is_empty() && of_file.unnamed == 0;
        match UNNAMED.iter().find(|(known, _)| path.starts_with(known)) {
            Some((known, _)) if !is_clean => used.push(*known),
            None if !is_clean => wrong.push(format!(
                "{path}: {} ClusterFlags without flags, {:?}",
                of_file.unnamed, of_file.literals
            )),
            _ => {}
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (known, why) in UNNAMED {
        assert!(used.contains(&known), "{known} needs no exception: {why}");
    }
}

/// The user and the namespace of Linkerd stay as they were given, in all commands.
#[test]
fn every_printed_command_keeps_the_flags_that_were_given() {
    let line = "linkerd-mc --kubeconfig /k --context a --as me --as-group b -L mesh check";
    let given = Cli::try_parse_from(line.split(' ')).unwrap().global;
    let flags = given.access().flags();
    let shown = |global: &Global| {
        let user = (global.as_user.clone(), global.as_groups.clone());
        let file = global.kubeconfig.clone();
        (file, user, global.linkerd_namespace.clone())
    };
    let found = found();
    let all = found.templates.iter().chain(&found.literals);
    let filled = all.flat_map(|command| words(command));
    let mut own = filled.filter(|words| words[0] == "linkerd-mc").peekable();
    assert!(own.peek().is_some());
    for words in own.filter(|words| !words.iter().any(|word| word == "--context")) {
        let command = flags.named(&words.join(" "));
        let again = Cli::try_parse_from(command.split(' ')).unwrap().global;
        assert_eq!(shown(&again), shown(&given), "{command}");
    }
    for (command, expected) in [
        ("linkerd check", "--linkerd-namespace mesh check"),
        ("kubectl get pods", "--as-group b get pods"),
    ] {
        let command = flags.named(command);
        assert!(command.ends_with(expected), "{command}");
    }
}

#[test]
fn commands_that_cannot_be_pasted_are_found() {
    for (command, good) in [
        ("linkerd-mc unlink {}", true),
        ("linkerd-mc unlink", false),
        (
            "linkerd-mc --context {context} check | kubectl apply -f -",
            true,
        ),
        ("linkerd-mc unknown", false),
        (
            "kubectl -n {} rollout restart deployment/{DESTINATION}",
            true,
        ),
        ("kubectl -n {} get pods", true),
        ("kubectl -n {} gett pods", false),
        ("kubectl -n {} get {}", true),
        ("kubectl delete secret -k a", false),
        ("linkerd check", true),
        ("linkerd checks", false),
    ] {
        let wrong: Vec<String> = words(command).iter().filter_map(|w| objection(w)).collect();
        assert_eq!(wrong.is_empty(), good, "{command}: {wrong:?}");
    }
    let text = "run `linkerd-mc check`, or `x`, then `kubectl get pods`";
    assert_eq!(commands(text), ["linkerd-mc check", "kubectl get pods"]);
}
