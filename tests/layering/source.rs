//! Just enough of Rust to see which paths a file names and which modules it declares.

/// A piece of source: a word, `::`, or one other character. Comments and literals are left out.
pub(crate) type Token = String;

/// A `mod name;` and whether it stands under `#[cfg(test)]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) test: bool,
}

/// The tokens of a source.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        match (c, next) {
            ('/', Some('/')) => at = end(&chars, at, |c| c == '\n'),
            ('/', Some('*')) => at = after_comment(&chars, at),
            ('"', _) => at = after_string(&chars, at),
            ('r', Some('"' | '#')) => match after_raw_string(&chars, at) {
                Some(after) => at = after,
                None => at = word(&chars, at, &mut found),
            },
            ('\'', Some(_)) => at = after_quote(&chars, at),
            (':', Some(':')) => {
                found.push("::".to_owned());
                at += 2;
            }
            _ if is_word(c) => at = word(&chars, at, &mut found),
            _ => {
                if !c.is_whitespace() {
                    found.push(c.to_string());
                }
                at += 1;
            }
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn end(chars: &[char], from: usize, stop: impl Fn(char) -> bool) -> usize {
    let length = chars[from..].iter().take_while(|c| !stop(**c)).count();
    from + length
}

fn word(chars: &[char], from: usize, found: &mut Vec<Token>) -> usize {
    let end = end(chars, from, |c| !is_word(c));
    found.push(chars[from..end].iter().collect());
    end
}

/// Comments nest.
fn after_comment(chars: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (at, depth) = (at + 2, depth + 1),
            ('*', '/') if depth == 1 => return at + 2,
            ('*', '/') => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    chars.len()
}

fn after_string(chars: &[char], from: usize) -> usize {
    let mut at = from + 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// `r"…"` and `r#"…"#`; `None` for a word that begins with `r`, or with `r#`.
fn after_raw_string(chars: &[char], from: usize) -> Option<usize> {
    let open = end(chars, from + 1, |c| c != '#');
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let hashes = open - from - 1;
    let closes = |at: &usize| {
        chars[*at] == '"' && chars[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes
    };
    Some(
        (open + 1..chars.len())
            .find(closes)
            .map_or(chars.len(), |at| at + 1 + hashes),
    )
}

/// A character, or the name of a lifetime.
fn after_quote(chars: &[char], from: usize) -> usize {
    match (chars.get(from + 1), chars.get(from + 2)) {
        (Some('\\'), _) => end(chars, from + 3, |c| c == '\'') + 1,
        (_, Some('\'')) => from + 3,
        _ => end(chars, from + 1, |c| !is_word(c)),
    }
}

/// The tokens without the items under `#[cfg(test)]`.
pub(crate) fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_test(tokens, at) {
            at = after_item(tokens, at + CFG_TEST.len());
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

const CFG_TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

fn is_test(tokens: &[Token], at: usize) -> bool {
    tokens[at..].len() >= CFG_TEST.len() && tokens[at..].iter().zip(CFG_TEST).all(|(a, b)| a == b)
}

/// Past the `;` or the closing brace of an item.
fn after_item(tokens: &[Token], from: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" if depth == 1 => return at + 1,
            ")" | "]" | "}" => depth -= 1,
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The modules that have a file of their own.
pub(crate) fn modules_of(tokens: &[Token]) -> Vec<Module> {
    let declared = |tokens: &[Token]| -> Vec<String> {
        let threes = tokens.windows(3);
        threes
            .filter(|t| t[0] == "mod" && t[2] == ";")
            .map(|t| t[1].clone())
            .collect()
    };
    let kept = declared(&without_tests(tokens));
    let all = declared(tokens).into_iter();
    all.map(|name| Module {
        test: !kept.contains(&name),
        name,
    })
    .collect()
}

/// Every path in the tokens, in `use` and elsewhere, with its groups spelled out: `a::{b, c::d}` is `a::b` and
/// `a::c::d`.
pub(crate) fn paths(tokens: &[Token]) -> Vec<Vec<Token>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].starts_with(is_word) {
            at = tree(tokens, at, &mut Vec::new(), &mut found);
        } else {
            at += 1;
        }
    }
    found
}

fn tree(
    tokens: &[Token],
    from: usize,
    prefix: &mut Vec<Token>,
    found: &mut Vec<Vec<Token>>,
) -> usize {
    let depth = prefix.len();
    let mut at = from;
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token == text);
    loop {
        if is(at, "{") {
            at += 1;
            while at < tokens.len() && !is(at, "}") {
                at = if is(at, ",") {
                    at + 1
                } else {
                    tree(tokens, at, prefix, found)
                };
            }
            at += 1;
            break;
        }
        prefix.extend(tokens.get(at).cloned());
        at += 1;
        let more = tokens
            .get(at + 1)
            .is_some_and(|next| next == "{" || next == "*" || next.starts_with(is_word));
        if !(is(at, "::") && more) {
            found.push(prefix.clone());
            break;
        }
        at += 1;
    }
    prefix.truncate(depth);
    if is(at, "as") { at + 2 } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(text: &str) -> Vec<String> {
        paths(&tokens(text))
            .into_iter()
            .map(|path| path.join("::"))
            .collect()
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        let text = "/// a::b\n/* c /* d */ e */ 'f' '\\'' r#\"g\"h\"# \"i\\\"j\" b\"k\" fn x<'l>(r: r#m) {}";
        assert_eq!(
            tokens(text),
            [
                "b", "fn", "x", "<", ">", "(", "r", ":", "r", "#", "m", ")", "{", "}"
            ]
        );
    }

    #[test]
    fn groups_are_spelled_out() {
        assert_eq!(
            spelled("use a::{b::{self, C as D}, e::*}; f::g::<H>()"),
            ["use", "a::b::self", "a::b::C", "a::e::*", "f::g", "H"]
        );
    }

    #[test]
    fn what_only_tests_have_is_told_apart() {
        let text = "mod a; #[cfg(test)] mod b; #[cfg(test)] #[x] fn c(d: [u8; 2]) { { e } } mod f { g } mod h;";
        let modules = modules_of(&tokens(text));
        let modules: Vec<(&str, bool)> =
            modules.iter().map(|m| (m.name.as_str(), m.test)).collect();
        assert_eq!(modules, [("a", false), ("b", true), ("h", false)]);
        assert_eq!(
            without_tests(&tokens(text)).join(" "),
            "mod a ; mod f { g } mod h ;"
        );
    }
}
