//! `--set` and similar flags: Helm's one-line syntax → assignments in a tree.
//!
//! `a.b=1,c[0].d=x,e={p,q},f\.g=x\,y,h=null`: dots and indices are steps down, commas separate assignments, braces
//! enclose a list, a backslash escapes the next character, and `null` removes a value.

use std::fmt;

use serde_json::{Map, Value};

/// Maximum index, as in Helm.
const MAX_INDEX: usize = 65_536;

/// Maximum depth, as in Helm.
const MAX_DEPTH: usize = 30;

/// A step down into a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Into a map.
    Key(String),
    /// Into a list.
    Index(usize),
}

/// A path in a tree. Displayed in the syntax of `--set`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<Segment>);

/// One assignment.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    pub path: Path,
    pub value: Value,
}

/// How the text of a value is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typing {
    /// `true`, `false`, `null` and whole numbers are typed, the rest is text.
    Infer,
    /// All values are text.
    Text,
}

/// Why a list of assignments is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// A key without `=`.
    #[error("missing value of key {0:?} (use key=value)")]
    NoValue(String),
    /// A missing key.
    #[error("missing key in {0:?}")]
    NoKey(String),
    /// `[…]` without a number in it.
    #[error("invalid index {0:?} (use list[0]=value)")]
    Index(String),
    /// Too many levels.
    #[error("a key has more than {MAX_DEPTH} levels")]
    TooDeep,
    /// `{` without `}`.
    #[error("missing closing brace in the list of {0:?}")]
    OpenList(String),
    /// Something between `}` and the next comma.
    #[error("missing comma after the list of {0:?}")]
    AfterList(String),
}

impl Path {
    /// The path of a chain of keys, such as `gateway.port`.
    pub fn keys(dotted: &str) -> Self {
        Self(
            dotted
                .split('.')
                .map(|key| Segment::Key(key.to_owned()))
                .collect(),
        )
    }

    /// This path and one more key.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let mut path = self.clone();
        path.0.push(Segment::Key(key.to_owned()));
        path
    }

    /// Whether one is a prefix of the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a == b)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Key(key) if at == 0 => f.write_str(&key.replace('.', "\\."))?,
                Segment::Key(key) => write!(f, ".{}", key.replace('.', "\\."))?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Reads assignments.
pub fn parse(text: &str, typing: Typing) -> Result<Vec<Assignment>, SetError> {
    let mut reader = Reader { rest: text };
    let mut assignments = Vec::new();
    while !reader.rest.is_empty() {
        let path = path(&mut reader, text)?;
        let value = match reader.rest.strip_prefix('{') {
            Some(rest) => {
                reader.rest = rest;
                list(&mut reader, typing, &path)?
            }
            None => typed(reader.until(&[',']).0, typing),
        };
        assignments.push(Assignment { path, value });
    }
    Ok(assignments)
}

/// Sets a value in a tree. Creates maps and lists on the path, and replaces other values there.
pub fn assign(tree: &mut Value, path: &Path, value: Value) {
    let mut at = tree;
    for segment in &path.0 {
        at = match segment {
            Segment::Key(key) => {
                if !at.is_object() {
                    *at = Value::Object(Map::new());
                }
                match at {
                    Value::Object(map) => map.entry(key.clone()).or_insert(Value::Null),
                    _ => return,
                }
            }
            Segment::Index(index) => {
                if !at.is_array() {
                    *at = Value::Array(Vec::new());
                }
                match at {
                    Value::Array(items) => {
                        if items.len() <= *index {
                            items.resize(*index + 1, Value::Null);
                        }
                        &mut items[*index]
                    }
                    _ => return,
                }
            }
        };
    }
    *at = value;
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    /// The text up to one of `stops`, without backslashes, and the stop; `None` if there is none before the end.
    fn until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let mut text = String::new();
        let mut chars = self.rest.chars();
        while let Some(c) = chars.next() {
            if c == '\\' {
                text.extend(chars.next());
            } else if stops.contains(&c) {
                self.rest = chars.as_str();
                return (text, Some(c));
            } else {
                text.push(c);
            }
        }
        self.rest = "";
        (text, None)
    }

    /// The next character, taken.
    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }
}

fn path(reader: &mut Reader<'_>, whole: &str) -> Result<Path, SetError> {
    let mut path = Path::default();
    reader.rest = reader.rest.trim_start();
    loop {
        let (key, mut stop) = reader.until(&['.', '=', ',', '[']);
        if key.is_empty() {
            return Err(SetError::NoKey(whole.to_owned()));
        }
        path.0.push(Segment::Key(key));
        while stop == Some('[') {
            let (index, _) = reader.until(&[']']);
            let number = index.parse().ok().filter(|index| *index <= MAX_INDEX);
            let number = number.ok_or_else(|| SetError::Index(format!("[{index}]")))?;
            path.0.push(Segment::Index(number));
            stop = reader.next();
        }
        if path.0.len() > MAX_DEPTH {
            return Err(SetError::TooDeep);
        }
        match stop {
            Some('=') => return Ok(path),
            Some('.') => (),
            _ => return Err(SetError::NoValue(path.to_string())),
        }
    }
}

fn list(reader: &mut Reader<'_>, typing: Typing, path: &Path) -> Result<Value, SetError> {
    let mut items = Vec::new();
    loop {
        let (item, stop) = reader.until(&[',', '}']);
        match stop {
            Some(',') => items.push(typed(item.trim().to_owned(), typing)),
            Some(_) => {
                if !(items.is_empty() && item.is_empty()) {
                    items.push(typed(item.trim().to_owned(), typing));
                }
                break;
            }
            None => return Err(SetError::OpenList(path.to_string())),
        }
    }
    if !reader.rest.is_empty() {
        reader.rest = reader
            .rest
            .strip_prefix(',')
            .ok_or_else(|| SetError::AfterList(path.to_string()))?;
    }
    Ok(Value::Array(items))
}

fn typed(text: String, typing: Typing) -> Value {
    if typing == Typing::Text {
        return Value::String(text);
    }
    let word = |word: &str| text.eq_ignore_ascii_case(word);
    match text.as_str() {
        _ if word("true") => Value::Bool(true),
        _ if word("false") => Value::Bool(false),
        _ if word("null") => Value::Null,
        "0" => 0.into(),
        // Text with a leading zero is more likely a name than a number.
        number if !number.starts_with('0') => number
            .parse::<i64>()
            .map_or_else(|_| Value::String(text.clone()), Into::into),
        _ => Value::String(text),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tree(text: &str, typing: Typing) -> Result<Value, SetError> {
        let mut tree = json!({});
        for assignment in parse(text, typing)? {
            assign(&mut tree, &assignment.path, assignment.value);
        }
        Ok(tree)
    }

    #[test]
    fn assignments_are_read_as_helm_reads_them() {
        for (text, expected) in [
            ("", json!({})),
            ("a=1", json!({ "a": 1 })),
            ("a=-1", json!({ "a": -1 })),
            ("a=0", json!({ "a": 0 })),
            ("a=0x1", json!({ "a": "0x1" })),
            ("a=007", json!({ "a": "007" })),
            ("a=1.5", json!({ "a": "1.5" })),
            (
                "a=99999999999999999999",
                json!({ "a": "99999999999999999999" }),
            ),
            (
                "a=true,b=false,c=null,d=True,e=FALSE,f=Null",
                json!({ "a": true, "b": false, "c": null, "d": true, "e": false, "f": null }),
            ),
            ("a=", json!({ "a": "" })),
            ("a=b=c", json!({ "a": "b=c" })),
            ("a= b ", json!({ "a": " b " })),
            ("a.b.c=d", json!({ "a": { "b": { "c": "d" } } })),
            ("a=1, b=2", json!({ "a": 1, "b": 2 })),
            ("a=1,", json!({ "a": 1 })),
            (r"a\.b=c", json!({ "a.b": "c" })),
            (r"a=b\,c", json!({ "a": "b,c" })),
            (r"a=b\\c", json!({ "a": "b\\c" })),
            (
                r"n.kubernetes\.io/os=linux",
                json!({ "n": { "kubernetes.io/os": "linux" } }),
            ),
            ("a={x,1,true}", json!({ "a": ["x", 1, true] })),
            (r"a={x\,y, z}", json!({ "a": ["x,y", "z"] })),
            ("a={}", json!({ "a": [] })),
            ("a={x},b=1", json!({ "a": ["x"], "b": 1 })),
            ("a[0]=x,a[1]=y", json!({ "a": ["x", "y"] })),
            ("a[1]=x", json!({ "a": [null, "x"] })),
            (
                "a[0].b.c=x,a[0].d=y",
                json!({ "a": [{ "b": { "c": "x" }, "d": "y" }] }),
            ),
            ("a[0][1]=x", json!({ "a": [[null, "x"]] })),
            ("a=1,a.b=2", json!({ "a": { "b": 2 } })),
            ("a=1,a[0]=2", json!({ "a": [2] })),
        ] {
            assert_eq!(tree(text, Typing::Infer).unwrap(), expected, "{text}");
        }
        let text = tree("a=1,b=true,c=null,d={1,x}", Typing::Text).unwrap();
        assert_eq!(
            text,
            json!({ "a": "1", "b": "true", "c": "null", "d": ["1", "x"] })
        );
    }

    #[test]
    fn invalid_assignments_are_rejected_with_a_reason() {
        type E = SetError;
        for (text, error) in [
            ("a", E::NoValue("a".into())),
            ("a.b", E::NoValue("a.b".into())),
            ("a=1,b", E::NoValue("b".into())),
            ("a[0]", E::NoValue("a[0]".into())),
            ("a[0]b=1", E::NoValue("a[0]".into())),
            ("=1", E::NoKey("=1".into())),
            (".a=1", E::NoKey(".a=1".into())),
            ("a..b=1", E::NoKey("a..b=1".into())),
            ("a[0].=1", E::NoKey("a[0].=1".into())),
            ("[0]=1", E::NoKey("[0]=1".into())),
            ("a[x]=1", E::Index("[x]".into())),
            ("a[-1]=1", E::Index("[-1]".into())),
            ("a[99999999]=1", E::Index("[99999999]".into())),
            (&format!("{}a=1", "a.".repeat(30)), E::TooDeep),
            (&format!("a{}=1", "[0]".repeat(30)), E::TooDeep),
            ("a={x", E::OpenList("a".into())),
            ("a={x}y", E::AfterList("a".into())),
        ] {
            assert_eq!(tree(text, Typing::Infer), Err(error), "{text}");
        }
    }

    #[test]
    fn paths_are_shown_as_they_are_typed() {
        let text = r"a.b\.c[0].d";
        let path = parse(&format!("{text}=1"), Typing::Infer)
            .unwrap()
            .remove(0)
            .path;
        assert_eq!(path.to_string(), text);
        assert!(Path::keys("a").overlaps(&path));
        assert!(!Path::keys("a.x").overlaps(&path));
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd_to_be_judged(text in "\\PC*|[ab.,=\\[\\]{}0-9\\\\]*") {
            let _ = tree(&text, Typing::Infer);
        }
    }
}
