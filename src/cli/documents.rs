//! The command lines in the documents are ones that this program takes. They are only parsed here: `tests/it/examples.rs`
//! runs those that need no more than two clusters.

use std::{fs, path::Path};

use clap::{Parser as _, error::ErrorKind};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::Cli;

/// A command line, and whether it stands in a block of its own, where it has to be complete.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    words: Vec<String>,
    complete: bool,
}

/// The command lines of a document that begin with the name of this program.
fn lines(text: &str) -> Vec<Line> {
    let (mut found, mut in_shell) = (Vec::new(), false);
    let mut add = |script: &str, complete| {
        let all = commands(script).into_iter();
        found.extend(all.map(|words| Line { words, complete }));
    };
    for event in Parser::new_ext(text, pulldown_cmark::Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                in_shell = info.split(' ').next() == Some("sh");
            }
            Event::End(TagEnd::CodeBlock) => in_shell = false,
            Event::Text(script) if in_shell => add(&script, true),
            Event::Code(code) => add(&code, false),
            _ => {}
        }
    }
    found
}

/// The commands of a script that run this program. Knows quotes, comments, joined lines, pipes, lists and redirections, and
/// no more of a shell's grammar.
fn commands(script: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    let (mut word, mut quote, mut skip) = (None::<String>, None, false);
    let mut chars = script
        .replace("\\\n", " ")
        .chars()
        .collect::<Vec<_>>()
        .into_iter()
        .peekable();
    while let Some(c) = chars.next() {
        match c {
            _ if quote == Some(c) => quote = None,
            _ if quote.is_some() => word.get_or_insert_default().push(c),
            '\'' | '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            '#' if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            ' ' | '\n' | '|' | ';' | '&' | '(' | ')' | '<' | '>' | '`' => {
                // What follows a redirection is the name of a file.
                if let Some(word) = word.take()
                    && !std::mem::take(&mut skip)
                {
                    all.last_mut().expect("it has one").push(word);
                }
                skip = skip || "<>".contains(c);
                if "\n|;&()`".contains(c) {
                    (skip, word) = (false, None);
                    all.push(Vec::new());
                }
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    if let (Some(word), false) = (word, skip) {
        all.last_mut().expect("it has one").push(word);
    }
    let before = ["do", "then", "!"];
    let own = all.into_iter().map(|words| {
        let words = words
            .into_iter()
            .skip_while(|word| before.contains(&word.as_str()));
        words.collect::<Vec<_>>()
    });
    own.filter(|words| words.first().is_some_and(|name| name == "linkerd-mc"))
        .collect()
}

/// A word with a value that suits every flag, if it is a variable of the shell.
fn with_value(word: &str) -> &str {
    if word.starts_with('$') { "east" } else { word }
}

#[test]
fn command_lines_in_documents_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for folder in ["docs", "examples/gitops"] {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        documents.extend(entries.map(|entry| entry.unwrap().path()));
    }
    documents.retain(|path| path.extension().is_some_and(|kind| kind == "md"));
    let (mut complete, mut wrong) = (0, Vec::new());
    for path in documents {
        for line in lines(&fs::read_to_string(&path).unwrap()) {
            complete += usize::from(line.complete);
            let words = line.words.iter().map(|word| with_value(word));
            let Err(error) = Cli::try_parse_from(words) else {
                continue;
            };
            // In a sentence, a command may stand without what it needs.
            let is_name = matches!(
                error.kind(),
                ErrorKind::MissingRequiredArgument
                    | ErrorKind::MissingSubcommand
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                    | ErrorKind::DisplayHelp
                    | ErrorKind::DisplayVersion
            );
            if line.complete || !is_name {
                wrong.push(format!(
                    "{}: {}: {error}",
                    path.display(),
                    line.words.join(" ")
                ));
            }
        }
    }
    assert!(complete > 40, "only {complete} command lines found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn command_lines_are_found_in_a_script() {
    let script = "for c in east; do linkerd-mc --context $c install \\\n  --set 'a=b c' | kubectl apply -f -; done\n\
                  linkerd-mc check -o junit > check.xml # linkerd-mc comment\nkubectl get x\n";
    let found: Vec<String> = commands(script)
        .iter()
        .map(|words| words.join("_"))
        .collect();
    assert_eq!(
        found,
        [
            "linkerd-mc_--context_$c_install_--set_a=b c",
            "linkerd-mc_check_-o_junit"
        ]
    );
    let text = "Run `linkerd-mc rotate`.\n\n```sh\nlinkerd-mc status\n```\n\n```yaml\nlinkerd-mc: x\n```\n";
    let found: Vec<(String, bool)> = lines(text)
        .into_iter()
        .map(|line| (line.words.join(" "), line.complete))
        .collect();
    let expected = [("linkerd-mc rotate", false), ("linkerd-mc status", true)];
    assert_eq!(
        found,
        expected.map(|(words, complete)| (words.to_owned(), complete))
    );
}
