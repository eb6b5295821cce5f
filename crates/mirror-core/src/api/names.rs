//! Names, labels and their values, as Kubernetes accepts them.

/// Maximum length of a DNS label, such as the name of a Service, and of the name and value of a label.
pub const MAX_LABEL: usize = 63;
/// Maximum length of a DNS subdomain: of the name of an object of any kind, and of the prefix of a label's key.
pub const MAX_SUBDOMAIN: usize = 253;

/// Whether Kubernetes accepts `text` as the key of a label or annotation.
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    !name.is_empty()
        && is_label_value(name)
        && prefix.is_none_or(|prefix| {
            prefix.len() <= MAX_SUBDOMAIN && prefix.split('.').all(is_dns_label_of_any_length)
        })
}

/// Whether Kubernetes accepts `text` as the value of a label.
pub fn is_label_value(text: &str) -> bool {
    let alphanumeric = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= MAX_LABEL
        && alphanumeric(text.chars().next())
        && alphanumeric(text.chars().next_back())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Whether `text` is a DNS label: at most 63 lower-case letters, digits and inner dashes. Since Kubernetes 1.36, each is
/// the name of a Service; before, one that begins with a digit is none, and only the API server knows its rule.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && is_dns_label_of_any_length(text)
}

fn is_dns_label_of_any_length(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c != '-');
    edge(text.chars().next())
        && edge(text.chars().next_back())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dns_labels_are_accepted() {
        for good in ["a", "east", "east-1", "1", &"a".repeat(63)] {
            assert!(is_dns_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "East", "a.b", "a_b", "ä", &"a".repeat(64)] {
            assert!(!is_dns_label(bad), "{bad}");
        }
    }
}
