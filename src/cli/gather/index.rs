//! The first page of an archive: the problems, what is in it, and what is missing.

use std::fmt::Write as _;

use anstream::adapter::strip_str;
use jiff::Timestamp;

use mirror_core::api::{duration::utc, text::one_line};
use observe::check::report::{self, Category};

/// A file of the archive.
#[derive(Debug)]
pub struct IndexEntry {
    /// Its path in the archive.
    pub path: String,
    /// What it holds.
    pub what: String,
    /// Its size in bytes, or why it is missing.
    pub content: Result<usize, String>,
}

impl IndexEntry {
    /// Whether it could not be read.
    pub fn is_missing(&self) -> bool {
        self.content.is_err()
    }
}

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    one_line(text).replace('|', "\\|")
}

/// The page, in Markdown.
pub fn index(now: Timestamp, checks: &[Category], entries: &[IndexEntry]) -> String {
    let mut text = format!(
        "# Gathered by linkerd-mc {} at {}\n\n## Problems\n\n",
        env!("LINKERD_MC_VERSION"),
        utc(now)
    );
    let problems = strip_str(&report::problems(checks)).to_string();
    match problems.trim() {
        "" => text.push_str("`linkerd-mc check` found none.\n"),
        problems => {
            let _ = writeln!(text, "```\n{problems}\n```");
        }
    }
    text.push_str("\n## Files\n\n| File | What it holds | KiB |\n| --- | --- | --- |\n");
    for IndexEntry {
        path,
        what,
        content,
    } in entries
    {
        if let Ok(size) = content {
            let what = cell(what);
            let _ = writeln!(text, "| {path} | {what} | {} |", size.div_ceil(1024));
        }
    }
    let mut missing = entries.iter().filter(|entry| entry.is_missing()).peekable();
    if missing.peek().is_some() {
        text.push_str(
            "\n## Could not be read\n\n| File | What it would hold | Why |\n| --- | --- | --- |\n",
        );
    }
    for IndexEntry {
        path,
        what,
        content,
    } in missing
    {
        let why = content.as_ref().err().map_or("", String::as_str);
        let (what, why) = (cell(what), cell(why));
        let _ = writeln!(text, "| {path} | {what} | {why} |");
    }
    text.push_str(
        "\n## Left out\n\nThe content of Secrets is left out. The values of environment variables, except those by which \
         Linkerd configures its proxies, of annotations that are neither Linkerd's nor Kubernetes' own, and tokens and \
         private keys in texts are taken out. Names and addresses are in here: look at the \
         files before you publish them.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use observe::{check::rules::CheckResult, finding::Level};

    use super::*;

    #[test]
    fn index_begins_with_the_problems() {
        let result = CheckResult {
            description: "Links are ready".into(),
            findings: vec!["east: no answer".into()],
            level: Some(Level::Error),
            ..CheckResult::default()
        };
        let checks = Category {
            name: "west".into(),
            results: vec![result],
            ..Category::default()
        };
        let entry = |path: &str, content| IndexEntry {
            path: path.into(),
            what: "all Links".into(),
            content,
        };
        let entries = [
            entry("west/objects/links.yaml", Ok(2049)),
            entry("west/objects/pods.yaml", Err("a|b\nc".into())),
        ];
        let text = index(Timestamp::UNIX_EPOCH, &[checks], &entries);
        let at = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("no {part:?} in\n{text}"))
        };
        assert!(at("east: no answer") < at("## Files"));
        at("| west/objects/links.yaml | all Links | 3 |");
        at("| west/objects/pods.yaml | all Links | a\\|b c |");
        let well = index(Timestamp::UNIX_EPOCH, &[], &entries[..1]);
        assert!(well.contains("found none"), "{well}");
        assert!(!well.contains("Could not be read"), "{well}");
    }
}
