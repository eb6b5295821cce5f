//! Commands that can be pasted into a shell.

use std::borrow::Cow;

use super::args::Global;

/// A word as a shell reads it.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@=,+%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// Flags that make another command use the same cluster, each with a space before it. `context` is the context if the
/// command has several.
pub(crate) fn same_cluster(global: &Global, context: Option<&str>) -> String {
    let path = global
        .kubeconfig
        .as_ref()
        .map(|path| path.to_string_lossy());
    let context = context.or(global.context.as_deref());
    let flags = [("--kubeconfig", path.as_deref()), ("--context", context)];
    let flags = flags
        .into_iter()
        .filter_map(|(flag, value)| Some((flag, value?)));
    let flags = flags.map(|(flag, value)| format!(" {flag} {}", quoted(value)));
    flags.collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_if_a_shell_would_change_them() {
        for (word, expected) in [
            ("kind-east", "kind-east"),
            (
                "arn:aws:eks:eu-west-1:1:cluster/a",
                "arn:aws:eks:eu-west-1:1:cluster/a",
            ),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$(rm)", "'$(rm)'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn another_command_uses_the_same_cluster() {
        let global = Global {
            kubeconfig: Some("/tmp/a b".into()),
            context: Some("east".into()),
            ..Global::default()
        };
        assert_eq!(same_cluster(&Global::default(), None), "");
        assert_eq!(
            same_cluster(&Global::default(), Some("west")),
            " --context west"
        );
        let expected = " --kubeconfig '/tmp/a b' --context east";
        assert_eq!(same_cluster(&global, None), expected);
    }
}
