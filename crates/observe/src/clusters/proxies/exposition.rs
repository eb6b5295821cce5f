//! Parses Prometheus' text format, as Linkerd's proxy writes it. Pure.
//!
//! Only samples with the wanted names are parsed. Of these, everything has to be right; the rest is skipped, so that a
//! series that nobody asks for can break nothing.

use std::{borrow::Cow, fmt, str};

use thiserror::Error;

use mirror_core::api::text::short;

/// Maximum length of a line in bytes. Lines of proxies have some hundred.
const MAX_LINE: usize = 64 << 10;

/// One sample of a time series.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'t> {
    /// Its name, such as `response_latency_ms_bucket`.
    pub name: &'t str,
    /// Its labels, in their order.
    pub labels: Vec<(&'t str, Cow<'t, str>)>,
    /// Its value.
    pub value: f64,
}

impl Sample<'_> {
    /// The value of a label; empty if there is none, as in Prometheus.
    pub fn label(&self, name: &str) -> &str {
        let mut labels = self.labels.iter();
        labels
            .find(|(known, _)| *known == name)
            .map_or("", |(_, value)| value)
    }
}

/// A line that is not in the format.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {number}: {fault}: {line:?}")]
pub struct MalformedLine {
    number: usize,
    fault: Fault,
    line: String,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    TooLong,
    Utf8,
    Label,
    Value,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "too long",
            Self::Utf8 => "invalid UTF-8",
            Self::Label => "invalid label",
            Self::Value => "invalid value",
        })
    }
}

/// Reads metrics piece by piece, and passes on the samples that are wanted.
pub struct SampleReader<'n> {
    names: &'n [&'n str],
    /// The beginning of a line whose end has not been read.
    begun: Vec<u8>,
    /// Number of lines that were read.
    lines: usize,
}

impl<'n> SampleReader<'n> {
    /// A reader of the samples with these names.
    pub fn new(names: &'n [&'n str]) -> Self {
        Self {
            names,
            begun: Vec::new(),
            lines: 0,
        }
    }

    /// Reads the next piece. Pieces may end anywhere.
    pub fn read(
        &mut self,
        piece: &[u8],
        each: &mut impl FnMut(&Sample<'_>),
    ) -> Result<(), MalformedLine> {
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if self.begun.is_empty() {
                self.line(line, each)?;
            } else {
                let mut whole = std::mem::take(&mut self.begun);
                whole.extend_from_slice(line);
                self.line(&whole, each)?;
            }
            rest = after;
        }
        self.begun.extend_from_slice(rest);
        if self.begun.len() > MAX_LINE {
            return Err(self.malformed(Fault::TooLong, &self.begun));
        }
        Ok(())
    }

    /// Reads the last line, which may lack its end.
    pub fn finish(mut self, each: &mut impl FnMut(&Sample<'_>)) -> Result<(), MalformedLine> {
        let last = std::mem::take(&mut self.begun);
        self.line(&last, each)
    }

    fn line(
        &mut self,
        line: &[u8],
        each: &mut impl FnMut(&Sample<'_>),
    ) -> Result<(), MalformedLine> {
        self.lines += 1;
        let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_:".contains(byte);
        let end = line.iter().position(|byte| !is_of_name(byte));
        let name = line.split_at(end.unwrap_or(line.len())).0;
        if !self.names.iter().any(|wanted| wanted.as_bytes() == name) {
            return Ok(());
        }
        let sample = sample(line).map_err(|fault| self.malformed(fault, line))?;
        each(&sample);
        Ok(())
    }

    fn malformed(&self, fault: Fault, line: &[u8]) -> MalformedLine {
        MalformedLine {
            number: self.lines,
            fault,
            line: short(&String::from_utf8_lossy(line)),
        }
    }
}

/// Parses `name{label="value",…} value [timestamp]`.
fn sample(line: &[u8]) -> Result<Sample<'_>, Fault> {
    let line = str::from_utf8(line).map_err(|_| Fault::Utf8)?;
    let (name, rest) = line
        .find(['{', ' ', '\t'])
        .map(|end| line.split_at(end))
        .ok_or(Fault::Value)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    // A timestamp may follow, which proxies never write.
    let value = rest.split_ascii_whitespace().next().ok_or(Fault::Value)?;
    let value = value.parse().map_err(|_| Fault::Value)?;
    Ok(Sample {
        name,
        labels,
        value,
    })
}

type Labels<'t> = Vec<(&'t str, Cow<'t, str>)>;

/// Parses labels up to the closing brace. Returns what follows it.
fn labels(mut rest: &str) -> Result<(Labels<'_>, &str), Fault> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((labels, after));
        }
        let (name, after) = rest.split_once('=').ok_or(Fault::Label)?;
        let name = name.trim_end();
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_of_name) {
            return Err(Fault::Label);
        }
        let after = after.trim_start().strip_prefix('"').ok_or(Fault::Label)?;
        let (value, after) = value(after)?;
        labels.push((name, value));
        rest = after.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(after) => after,
            None if rest.starts_with('}') => rest,
            None => return Err(Fault::Label),
        };
    }
}

/// Parses the value of a label up to the closing quote. Returns what follows it.
fn value(text: &str) -> Result<(Cow<'_, str>, &str), Fault> {
    let end = text.find(['"', '\\']).ok_or(Fault::Label)?;
    if text[end..].starts_with('"') {
        return Ok((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    let mut value = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return Ok((Cow::Owned(value), chars.as_str())),
            '\\' => value.push(match chars.next() {
                Some('n') => '\n',
                Some(c @ ('"' | '\\')) => c,
                _ => return Err(Fault::Label),
            }),
            c => value.push(c),
        }
    }
    Err(Fault::Label)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// A sample that outlives its text.
    type Owned = (String, Vec<(String, String)>, f64);

    fn read(pieces: &[&[u8]], names: &[&str]) -> Result<Vec<Owned>, String> {
        let mut found = Vec::new();
        let mut each = |sample: &Sample<'_>| {
            let labels = sample.labels.iter();
            let labels = labels.map(|(name, value)| ((*name).to_owned(), value.to_string()));
            found.push((sample.name.to_owned(), labels.collect(), sample.value));
        };
        let mut reader = SampleReader::new(names);
        for piece in pieces {
            reader
                .read(piece, &mut each)
                .map_err(|error| error.to_string())?;
        }
        reader
            .finish(&mut each)
            .map_err(|error| error.to_string())?;
        Ok(found)
    }

    fn one(line: &str) -> Result<Owned, String> {
        read(&[line.as_bytes()], &["a"]).map(|mut found| found.remove(0))
    }

    #[test]
    fn samples_are_parsed_as_prometheus_does() {
        let of = |labels: &[(&str, &str)], value: f64| {
            let labels = labels
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            Ok(("a".to_owned(), labels.collect(), value))
        };
        for (line, expected) in [
            ("a 1", of(&[], 1.0)),
            ("a{} 1.5", of(&[], 1.5)),
            ("a{b=\"c\"} 2", of(&[("b", "c")], 2.0)),
            ("a{b=\"c\",d=\"\",} 2", of(&[("b", "c"), ("d", "")], 2.0)),
            (
                "a{ b = \"c\" , d = \"e\" } 3",
                of(&[("b", "c"), ("d", "e")], 3.0),
            ),
            ("a{b=\"{,}= \"} 3", of(&[("b", "{,}= ")], 3.0)),
            (r#"a{b="\\\"\n"} 4"#, of(&[("b", "\\\"\n")], 4.0)),
            ("a{le=\"+Inf\"} +Inf", of(&[("le", "+Inf")], f64::INFINITY)),
            ("a 1 1700000000000", of(&[], 1.0)),
            ("a 1\r", of(&[], 1.0)),
        ] {
            assert_eq!(one(line), expected, "{line}");
        }
    }

    #[test]
    fn wrong_lines_are_errors_only_if_they_are_wanted() {
        for (line, fault) in [
            ("a", "invalid value"),
            ("a{b=\"c\"}", "invalid value"),
            ("a{b=\"c\"} x", "invalid value"),
            ("a{b=\"c\" 1", "invalid label"),
            ("a{b=c} 1", "invalid label"),
            ("a{b} 1", "invalid label"),
            ("a{b=\"c} 1", "invalid label"),
            ("a{b=\"\\x\"} 1", "invalid label"),
            ("a{b=\"c\"d=\"e\"} 1", "invalid label"),
            ("a{b-c=\"\"} 1", "invalid label"),
        ] {
            let text = format!("# TYPE a counter\n{line}\nb 1\n");
            let error = read(&[text.as_bytes()], &["a"]).unwrap_err();
            assert_eq!(error, format!("line 2: {fault}: {line:?}"));
            let others = read(&[text.as_bytes()], &["b"]).unwrap();
            assert_eq!(others, [("b".to_owned(), vec![], 1.0)], "{line}");
        }
        let error = read(&[b"a{b=\"\xff\"} 1"], &["a"]).unwrap_err();
        assert!(error.starts_with("line 1: invalid UTF-8"), "{error}");
    }

    #[test]
    fn names_are_compared_as_a_whole() {
        let text = b"ab 1\na_b 2\na:b 3\na\t4\nba 5\n#a 6\n a 7\n";
        let found = read(&[text], &["a"]).unwrap();
        assert_eq!(found, [("a".to_owned(), vec![], 4.0)]);
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let piece = [b'x'; 4096];
        let pieces = vec![piece.as_slice(); 17];
        let error = read(&pieces, &["a"]).unwrap_err();
        assert!(error.contains("too long"), "{error}");
    }

    proptest! {
        /// What is written is read again, however it is cut into pieces.
        #[test]
        fn samples_survive_the_format(
            samples in vec((vec(("[a-z_][a-z0-9_]{0,8}", "(?s).{0,12}"), 0..4), any::<f64>()), 0..8),
            size in 1_usize..40,
        ) {
            let mut text = String::new();
            for (labels, value) in &samples {
                let labels = labels.iter().map(|(name, value)| {
                    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                    format!("{name}=\"{value}\"")
                });
                let labels = labels.collect::<Vec<_>>().join(",");
                writeln!(text, "a{{{labels}}} {value}\nb{{x=\"y\"}} 1").unwrap();
            }
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            let found = read(&pieces, &["a"]).unwrap();
            prop_assert_eq!(found.len(), samples.len());
            for ((name, labels, value), (expected, number)) in found.iter().zip(&samples) {
                prop_assert_eq!(name, "a");
                prop_assert_eq!(labels, expected);
                prop_assert!(value.to_bits() == number.to_bits() || value.is_nan() && number.is_nan());
            }
        }

        /// Nothing makes it panic.
        #[test]
        fn any_text_is_read_or_refused(text in vec(prop_oneof![
            Just(b'a'), Just(b'{'), Just(b'}'), Just(b'"'), Just(b'='), Just(b','), Just(b'\\'), Just(b'\n'),
            Just(b' '), Just(b'1'), any::<u8>(),
        ], 0..60)) {
            let whole = read(&[&text], &["a"]);
            let pieces: Vec<&[u8]> = text.chunks(3).collect();
            prop_assert_eq!(whole.is_ok(), read(&pieces, &["a"]).is_ok());
        }
    }
}
