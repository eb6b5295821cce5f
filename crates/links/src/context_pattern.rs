//! Contexts of the kubeconfig by patterns, in which `*` stands for any text. Pure.

use hints::hint::fail;

/// The contexts that a list such as `prod-*,staging` names, in the order of the list, each once. Fails if a part of it
/// names none.
pub fn matching(list: &str, contexts: &[String]) -> anyhow::Result<Vec<String>> {
    let mut chosen: Vec<String> = Vec::new();
    let patterns = list.split(',').map(str::trim);
    for pattern in patterns.filter(|pattern| !pattern.is_empty()) {
        let found = contexts.iter().filter(|context| is_match(pattern, context));
        let found: Vec<&String> = found.collect();
        if found.is_empty() {
            return Err(fail(
                format!("no context of the kubeconfig is called {pattern}"),
                "`kubectl config get-contexts` lists all; * stands for any text",
            ));
        }
        for context in found {
            if !chosen.contains(context) {
                chosen.push(context.clone());
            }
        }
    }
    if chosen.is_empty() {
        return Err(fail(
            "the list of contexts is empty",
            "pass --context 'prod-*,staging'",
        ));
    }
    Ok(chosen)
}

/// Whether a pattern matches a text.
pub fn is_match(pattern: &str, text: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut left) = text.strip_prefix(begin) else {
        return false;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The first match of each part leaves the most text for the others.
    for part in middle.split('*') {
        let Some(at) = left.find(part) else {
            return false;
        };
        left = &left[at + part.len()..];
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("east", "east", true),
            ("east", "east-1", false),
            ("*", "", true),
            ("prod-*", "prod-east", true),
            ("prod-*", "prod-", true),
            ("prod-*", "my-prod-east", false),
            ("*-east", "prod-east", true),
            ("*-east", "prod-east-1", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*ab*ab", "ab", false),
            ("*ab*ab", "abab", true),
            ("a**b", "ab", true),
            ("ax*xa", "axa", false),
            ("*é*", "café au lait", true),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn each_context_is_chosen_once_and_each_pattern_chooses_one() {
        let contexts = ["prod-a", "prod-b", "staging"].map(str::to_owned);
        let chosen = |list: &str| matching(list, &contexts).map_err(|error| error.to_string());
        assert_eq!(
            chosen("staging, prod-*,prod-a"),
            Ok(["staging", "prod-a", "prod-b"].map(str::to_owned).to_vec())
        );
        assert_eq!(
            chosen("prod-*,test-*"),
            Err("no context of the kubeconfig is called test-*".to_owned())
        );
        assert!(chosen(" , ").is_err());
    }
}
