//! Commands that messages tell people to run: with the flags that name the cluster, and quoted for a shell, so that they
//! can be pasted.
//!
//! Templates are literals at the place of use. A test of the command line collects all of them from the sources, and
//! parses them (`src/cli/suggestions.rs`).

use std::fmt;

use mirror_core::api::labels;

/// The flags with which a person named a cluster. kubectl and `linkerd` have the same ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFlags {
    /// `--context east`, and others that all three programs have.
    words: Vec<String>,
    /// Address of the API server, for which kubectl has a flag of another name.
    address: Option<String>,
    /// Namespace of Linkerd's control plane, of which kubectl knows nothing.
    linkerd: Option<String>,
}

/// A command to paste. Shown in backticks.
///
/// Its words are those of a template in our sources and values that are quoted for a shell, so no text of a cluster can
/// become a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suggested(String);

/// The flag that names a cluster.
const CONTEXT: &str = "--context";

/// A flag that is left out with this value, because this is its default.
const DEFAULT: [&str; 2] = ["--namespace", labels::MULTICLUSTER_NAMESPACE];

impl ClusterFlags {
    /// `--context` with this name.
    pub fn of_context(name: &str) -> Self {
        Self::default().with(CONTEXT, name)
    }

    /// These flags, and another one.
    pub fn with(mut self, flag: &str, value: &str) -> Self {
        self.words.extend([flag.to_owned(), value.to_owned()]);
        self
    }

    /// These flags, which name another context too.
    pub fn and_context(mut self, name: &str) -> Self {
        match self.words.iter().position(|word| word == CONTEXT) {
            Some(at) => {
                self.words[at + 1] = format!("{},{name}", self.words[at + 1]);
                self
            }
            None => self.with(CONTEXT, name),
        }
    }

    /// These flags, and the address of the API server.
    pub fn at(mut self, address: Option<String>) -> Self {
        self.address = address;
        self
    }

    /// These flags, and the namespace of Linkerd's control plane, unless it is the default.
    pub fn of_linkerd(mut self, namespace: &str) -> Self {
        let is_default = ["", labels::LINKERD_NAMESPACE].contains(&namespace);
        self.linkerd = (!is_default).then(|| namespace.to_owned());
        self
    }

    /// A command of this program. Each `{}` of the template is one of the values.
    pub fn mc(&self, template: &'static str, values: &[&str]) -> Suggested {
        let mut words = filled(template, values);
        if let Some(at) = words.windows(2).position(|pair| pair == DEFAULT) {
            words.drain(at..at + 2);
        }
        self.command("linkerd-mc", self.own(), words)
    }

    /// A command that begins with the name of its program: this one, kubectl or `linkerd`.
    pub fn of_program(&self, command: &'static str, values: &[&str]) -> Suggested {
        match command.split_once(' ') {
            Some(("linkerd-mc", template)) => self.mc(template, values),
            Some(("kubectl", template)) => self.kubectl(template, values),
            Some(("linkerd", template)) => self.linkerd(template, values),
            _ => Suggested::of(command, values),
        }
    }

    /// The command that links another cluster to this one. It has no context: it names both of its clusters.
    pub fn link(&self) -> Suggested {
        let mut flags = self.clone();
        let Some(at) = flags.words.iter().position(|word| word == CONTEXT) else {
            return flags.mc("link", &[]);
        };
        let context: Vec<String> = flags.words.drain(at..at + 2).collect();
        flags.at(None).mc("link --source {}", &[&context[1]])
    }

    /// A text about this cluster, in which each command in backticks has these flags, unless it names a cluster itself.
    /// For messages of parts that do not know what the user calls the cluster.
    pub fn inserted(&self, text: &str) -> String {
        let mut result = String::with_capacity(text.len());
        for (at, part) in text.split('`').enumerate() {
            if at > 0 {
                result.push('`');
            }
            if at % 2 == 0 {
                result.push_str(part);
            } else {
                result.push_str(&self.named(part));
            }
        }
        result
    }

    /// A command with these flags, unless it names a cluster itself.
    pub fn named(&self, command: &str) -> String {
        if command.contains(CONTEXT) {
            return command.to_owned();
        }
        let steps = command.split(" | ").map(|step| {
            let (program, words) = match step.split_once(' ') {
                Some(("linkerd-mc", "link")) => return self.link().0,
                Some(("linkerd-mc", words)) => (self.mc("", &[]), words),
                Some(("kubectl", words)) => (self.kubectl("", &[]), words),
                Some(("linkerd", words)) => (self.linkerd("", &[]), words),
                _ => return step.to_owned(),
            };
            format!("{} {words}", program.0)
        });
        steps.collect::<Vec<_>>().join(" | ")
    }

    /// The command that installs the extension.
    pub fn install(&self) -> Suggested {
        let install = self.mc("install", &[]);
        install.piped(&self.kubectl("apply -f -", &[]))
    }

    /// The command that restarts Linkerd's destination controller, which reads credentials when it starts.
    pub fn restart_destination(&self, linkerd_namespace: &str) -> Suggested {
        self.kubectl(
            "-n {} rollout restart deployment/linkerd-destination",
            &[linkerd_namespace],
        )
    }

    /// The command that lets Linkerd read EndpointSlices.
    pub fn read_endpoint_slices(&self) -> Suggested {
        let upgrade = self.linkerd("upgrade --set enableEndpointSlices=true", &[]);
        upgrade.piped(&self.kubectl("apply -f -", &[]))
    }

    /// A command of kubectl.
    pub fn kubectl(&self, template: &'static str, values: &[&str]) -> Suggested {
        let server = self.address.as_ref().map(|address| {
            let scheme = if address.contains("://") {
                ""
            } else {
                "https://"
            };
            ["--server".to_owned(), format!("{scheme}{address}")]
        });
        self.command(
            "kubectl",
            server.into_iter().flatten(),
            filled(template, values),
        )
    }

    /// A command of `linkerd`.
    pub fn linkerd(&self, template: &'static str, values: &[&str]) -> Suggested {
        self.command("linkerd", self.own(), filled(template, values))
    }

    /// The flags that kubectl does not have.
    fn own(&self) -> impl Iterator<Item = String> {
        let own = [
            ("--api-addr", &self.address),
            ("--linkerd-namespace", &self.linkerd),
        ];
        let given = own
            .into_iter()
            .filter_map(|(flag, value)| Some([flag.to_owned(), value.clone()?]));
        given.flatten()
    }

    fn command(
        &self,
        program: &str,
        own: impl Iterator<Item = String>,
        words: Vec<String>,
    ) -> Suggested {
        let flags = self.words.iter().cloned();
        let all = flags.chain(own).chain(words);
        let all = all.map(|word| format!(" {}", quoted(&word)));
        Suggested(format!("{program}{}", all.collect::<String>()))
    }
}

impl Suggested {
    /// A command that begins with the name of its program. Each `{}` is one of the values.
    pub fn of(command: &'static str, values: &[&str]) -> Self {
        let words = filled(command, values).into_iter();
        let words: Vec<String> = words.map(|word| quoted(&word)).collect();
        Self(words.join(" "))
    }

    /// This command, whose output the next one reads.
    pub fn piped(self, next: &Self) -> Self {
        Self(format!("{} | {}", self.0, next.0))
    }

    /// The command without backticks.
    pub fn line(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Suggested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}

/// The words of a template, in which each `{}` is replaced.
fn filled(template: &str, values: &[&str]) -> Vec<String> {
    let mut values = values.iter();
    let words = template.split_whitespace().map(|word| {
        let mut parts = word.split("{}");
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            filled.push_str(values.next().copied().unwrap_or_default());
            filled.push_str(part);
        }
        filled
    });
    words.collect()
}

/// A word as a POSIX shell reads it. A control character, such as a line break, would end a command that somebody pastes, so
/// `\u{fffd}` stands for it.
fn quoted(word: &str) -> String {
    let word = &*word.replace(char::is_control, "\u{fffd}");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The value whose text is most similar to `typed`, ignoring case. `None` if more than `max` edits lie between them.
pub fn closest<'k, T: Ord>(
    typed: &str,
    known: impl Iterator<Item = (&'k str, T)>,
    max: usize,
) -> Option<T> {
    let typed = typed.to_lowercase();
    let distance = |text: &str| strsim::levenshtein(&typed, &text.to_lowercase());
    let (near, value) = known.map(|(text, value)| (distance(text), value)).min()?;
    (near <= max).then_some(value)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn command_names_the_cluster_and_omits_defaults() {
        let west = ClusterFlags::of_context("west").with("--as", "me");
        for (command, expected) in [
            (
                west.mc("unlink {} --namespace {}", &["east", "mc"]),
                "linkerd-mc --context west --as me unlink east --namespace mc",
            ),
            (
                west.mc(
                    "unlink {} --namespace {} --apply",
                    &["east", "linkerd-multicluster"],
                ),
                "linkerd-mc --context west --as me unlink east --apply",
            ),
            (
                west.kubectl("-n {} get pods", &["linkerd-multicluster"]),
                "kubectl --context west --as me -n linkerd-multicluster get pods",
            ),
            (
                ClusterFlags::default()
                    .at(Some("192.0.2.1:6443".into()))
                    .mc("install", &[])
                    .piped(
                        &ClusterFlags::default()
                            .at(Some("192.0.2.1:6443".into()))
                            .kubectl("apply -f -", &[]),
                    ),
                "linkerd-mc --api-addr 192.0.2.1:6443 install | kubectl --server https://192.0.2.1:6443 apply -f -",
            ),
            (
                west.linkerd("upgrade --set {}=true", &["a"]),
                "linkerd --context west --as me upgrade --set a=true",
            ),
        ] {
            assert_eq!(command.line(), expected);
            assert_eq!(command.to_string(), format!("`{expected}`"));
        }
    }

    #[test]
    fn value_cannot_end_a_command_that_is_pasted() {
        let command = Suggested::of("kubectl delete {}", &["x\nrm y\u{1b}"]);
        assert_eq!(command.line(), "kubectl delete 'x\u{fffd}rm y\u{fffd}'");
    }

    #[test]
    fn several_clusters_are_named_together() {
        let west = ClusterFlags::default().with("--as", "me");
        let west = west.with("--context", "west");
        let all = west.and_context("a b").and_context("north");
        let expected = "linkerd-mc --as me --context 'west,a b,north' check";
        assert_eq!(all.mc("check", &[]).line(), expected);
    }

    #[test]
    fn commands_in_a_text_get_the_flags_of_its_cluster() {
        let west = ClusterFlags::of_context("west");
        for (text, expected) in [
            ("plain text", "plain text"),
            (
                "run `linkerd-mc install | kubectl apply -f -`, or `kubectl get pods`; see `x`",
                "run `linkerd-mc --context west install | kubectl --context west apply -f -`, or `kubectl --context west \
                 get pods`; see `x`",
            ),
            (
                "run `linkerd-mc --context east install`",
                "run `linkerd-mc --context east install`",
            ),
            ("the `kubectl", "the `kubectl"),
            (
                "`linkerd upgrade`, `linkerd-mc-x y` or `linkerd-mc link`",
                "`linkerd --context west upgrade`, `linkerd-mc-x y` or `linkerd-mc link --source west`",
            ),
        ] {
            assert_eq!(west.inserted(text), expected);
            assert_eq!(ClusterFlags::default().inserted(text), text);
        }
    }

    #[test]
    fn shell_reads_each_word_as_it_was() {
        let words = [
            "plain",
            "arn:aws:eks:eu-west-1:1:cluster/east",
            "kubernetes.io/metadata.name in (a,b)",
            "it's $HOME `id` \"x\"",
            "",
            "a b",
            "--flag=*",
            "~",
        ];
        for word in words {
            let script = format!("printf %s {}", quoted(word));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
        assert_eq!(quoted("arn:aws:eks:eu-west-1:1:cluster/east"), words[1]);
    }
}
