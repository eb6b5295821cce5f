//! The command lines in the documents and their pictures are ones that this program takes, with the names of flags that
//! its help has. They are only parsed here: `tests/it/examples.rs` runs those that need no more than two clusters.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{CommandFactory as _, Parser as _, error::ErrorKind};
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

/// The command lines in a recording of a terminal, in which they are typed letter by letter. Some are part of a text.
fn typed(svg: &str) -> Vec<Line> {
    let shown = svg.split("</text>").filter_map(|part| {
        let (_, said) = part.rsplit_once('>')?;
        said.starts_with("linkerd-mc ").then_some(said)
    });
    let shown: Vec<&str> = shown.collect();
    let is_begun = |said: &str| {
        shown
            .iter()
            .any(|all| all.len() > said.len() && all.starts_with(said))
    };
    let whole = shown.iter().filter(|said| !is_begun(said));
    let words = whole.flat_map(|said| commands(said));
    words
        .map(|words| Line {
            words,
            complete: false,
        })
        .collect()
}

/// The flags of a command line that its command's help does not have, such as former names.
fn unlisted(words: &[String]) -> Vec<String> {
    let root = Cli::command();
    let (mut command, mut flags) = (&root, Vec::new());
    for word in words.iter().skip(1) {
        if let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty()) {
            flags.push(flag.split('=').next().unwrap_or(flag));
        } else if let Some(found) = command.find_subcommand(word) {
            command = found;
        }
    }
    let listed = |flag: &str| {
        let all = root.get_arguments().chain(command.get_arguments());
        let mut shown = all.filter(|arg| !arg.is_hide_set());
        flag == "help" || shown.any(|arg| arg.get_long() == Some(flag))
    };
    let unlisted = flags.into_iter().filter(|flag| !listed(flag));
    unlisted.map(|flag| format!("--{flag}")).collect()
}

/// The documents, or their pictures.
fn documents(kind: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for folder in ["docs", "docs/pictures", "examples/gitops"] {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        documents.extend(entries.map(|entry| entry.unwrap().path()));
    }
    documents.retain(|path| path.extension().is_some_and(|found| found == kind));
    documents
}

#[test]
fn flags_in_documents_and_pictures_have_the_names_of_the_help() {
    let (mut read, mut found) = (0, Vec::new());
    for path in [documents("md"), documents("svg")].concat() {
        let text = fs::read_to_string(&path).unwrap();
        let is_picture = path.extension().is_some_and(|kind| kind == "svg");
        let lines = if is_picture {
            typed(&text)
        } else {
            lines(&text)
        };
        for line in lines {
            read += 1;
            if !unlisted(&line.words).is_empty() {
                found.push(format!("{}: {}", path.display(), line.words.join(" ")));
            }
        }
    }
    assert!(read > 100, "only {read} command lines found");
    assert!(found.is_empty(), "{}", found.join("\n"));
    let former = "linkerd-mc link --from east --to=west --yes".split(' ');
    let former: Vec<String> = former.map(str::to_owned).collect();
    assert_eq!(unlisted(&former), ["--from", "--to"]);
}

#[test]
fn command_lines_in_documents_are_valid() {
    let (mut complete, mut wrong) = (0, Vec::new());
    for path in documents("md") {
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
fn typed_commands_are_found_in_a_picture() {
    let text = |said: &str| format!("<text x=\"1\">{said}</text>");
    let shown = [
        "$",
        "linkerd-mc st",
        "linkerd-mc status",
        "linkerd-mc link --target a",
    ]
    .map(text);
    let found: Vec<String> = typed(&shown.concat())
        .into_iter()
        .map(|line| line.words.join(" "))
        .collect();
    assert_eq!(found, ["linkerd-mc status", "linkerd-mc link --target a"]);
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
