//! Kubeconfigs, environments and flags: edits of one that works, drawn from [tables](crate::tables).

use std::fmt::Write as _;

use fastrand::Rng;

use crate::tables::groups;

/// An edit of the case that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// A field of the cluster, in YAML. An empty value removes it.
    Cluster(&'static str, &'static str),
    /// A field of the user.
    User(&'static str, &'static str),
    /// A field of the user's exec plugin.
    Exec(&'static str, &'static str),
    /// What the plugin prints, or does.
    Prints(&'static str),
    /// A field of the context.
    Context(&'static str, &'static str),
    /// A variable of the environment.
    Env(&'static str, &'static str),
    /// A flag of both programs.
    Flag(&'static str),
    /// The address of the API server, for which the programs have flags with different names.
    Server(&'static str),
    /// Text before the kubeconfig, or after it.
    Before(&'static str),
    After(&'static str),
    /// A replacement in the text of the kubeconfig.
    Replace(&'static str, &'static str),
    /// Whether lines end as on Windows.
    Crlf,
    /// Another file in KUBECONFIG, before this one or after it.
    FirstFile(&'static str),
    LastFile(&'static str),
}

use Edit::{After, Before, Cluster, Context, Crlf, Exec, Prints, Replace, User};

/// A case: edits, the last of which win.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case(pub(crate) Vec<Edit>);

impl Case {
    /// Draws a case.
    pub(crate) fn draw(random: &mut Rng) -> Self {
        let mut edits = Vec::new();
        for (percentage, choices) in groups() {
            if random.u8(0..100) < percentage {
                edits.extend(choices[random.usize(0..choices.len())]);
            }
        }
        Self(edits)
    }

    /// Whether there is such an edit.
    pub(crate) fn has(&self, is_it: impl Fn(&Edit) -> bool) -> bool {
        self.0.iter().any(is_it)
    }

    /// Smaller cases: each without one of the edits.
    pub(crate) fn smaller(&self) -> impl Iterator<Item = Self> {
        (0..self.0.len()).map(|at| {
            let mut edits = self.0.clone();
            edits.remove(at);
            Self(edits)
        })
    }

    fn fields(
        &self,
        start: &[(&'static str, &'static str)],
        of: impl Fn(&Edit) -> Option<(&'static str, &'static str)>,
    ) -> String {
        let mut fields = start.to_vec();
        for (key, value) in self.0.iter().filter_map(of) {
            fields.retain(|(own, _)| *own != key);
            fields.push((key, value));
        }
        let fields = fields.iter().filter(|(_, value)| !value.is_empty());
        let fields: Vec<String> = fields
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        fields.join(", ")
    }

    /// The kubeconfig, with names of ports and of what is in files.
    pub(crate) fn kubeconfig(&self) -> String {
        let cluster = self.fields(
            &[
                ("server", "'https://127.0.0.1:TLS'"),
                ("certificate-authority-data", "CA"),
            ],
            |edit| match edit {
                Cluster(key, value) => Some((*key, *value)),
                _ => None,
            },
        );
        let mut user = self.fields(&[("token", "t")], |edit| match edit {
            User(key, value) => Some((*key, *value)),
            _ => None,
        });
        if self
            .0
            .iter()
            .any(|edit| matches!(edit, Exec(..) | Prints(_)))
        {
            let start = [
                ("apiVersion", "client.authentication.k8s.io/v1"),
                ("interactiveMode", "Never"),
                ("args", "[DIR/plugin]"),
            ];
            let exec = self.fields(&start, |edit| match edit {
                Exec(key, value) => Some((*key, *value)),
                _ => None,
            });
            if !user.is_empty() {
                user.push_str(", ");
            }
            write!(user, "exec: {{{exec}}}").unwrap();
        }
        let context = self.fields(
            &[("cluster", "main"), ("user", "main")],
            |edit| match edit {
                Context(key, value) => Some((*key, *value)),
                _ => None,
            },
        );
        let mut text = format!(
            "apiVersion: v1
kind: Config
current-context: main
clusters:
- name: main
  cluster: {{{cluster}}}
contexts:
- name: main
  context: {{{context}}}
users:
- name: main
  user: {{{user}}}
"
        );
        for edit in &self.0 {
            match edit {
                Before(before) => text.insert_str(0, before),
                After(after) => text.push_str(after),
                Replace(old, new) => text = text.replace(old, new),
                _ => {}
            }
        }
        if self.0.contains(&Crlf) {
            text = text.replace('\n', "\r\n");
        }
        text
    }

    /// What the plugin does.
    pub(crate) fn prints(&self) -> &'static str {
        let mut prints = self.0.iter().filter_map(|edit| match edit {
            Prints(what) => Some(*what),
            _ => None,
        });
        prints.next_back().unwrap_or("TOKEN")
    }
}
