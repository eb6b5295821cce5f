//! Counts things in words, and wraps sentences for a terminal, between words. What people copy stays in one piece: the
//! terminal itself breaks a long command, and copies it without the break.

use textwrap::{Options, WordSeparator, WordSplitter, core::Word, fill};

/// Beginnings of lines that have nothing but a command or an address.
const WHOLE: [&str; 7] = [
    "run: ",
    "run in ",
    "see ",
    "linkerd-mc ",
    "kubectl ",
    "linkerd ",
    "docs/",
];

/// A number of things, such as `1 mirror` or `2 mirrors`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The first `most` of these names, and how many more there are: `a, b and 3 more`.
pub fn listed(names: &[String], most: usize) -> String {
    let named = names.iter().take(most).map(String::as_str);
    let named = named.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Breaks lines that are longer than `width` between words, if `width` is known. The rest of a line is indented like its
/// first word, and by `hang` columns more.
pub fn wrapped(text: &str, width: Option<usize>, hang: usize) -> String {
    let Some(width) = width else {
        return text.to_owned();
    };
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => wrapped_line(line, width, hang) + "\n",
            None => wrapped_line(line, width, hang),
        })
        .collect()
}

fn wrapped_line(line: &str, width: usize, hang: usize) -> String {
    let sentence = line.trim_start();
    if WHOLE.iter().any(|begin| sentence.starts_with(begin)) {
        return line.to_owned();
    }
    let (indent, _) = line.split_at(line.len() - sentence.len());
    let below = format!("{indent}{}", " ".repeat(hang));
    let options = Options::new(width)
        .initial_indent(indent)
        .subsequent_indent(&below)
        .break_words(false)
        .word_separator(WordSeparator::Custom(words))
        .word_splitter(WordSplitter::NoHyphenation);
    fill(sentence, options)
}

/// The words of a line. What is in backticks is one word.
fn words(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    let mut is_code = false;
    let mut after_space = false;
    let mut begins = vec![0];
    for (at, char) in line.char_indices() {
        if after_space && char != ' ' && !is_code {
            begins.push(at);
        }
        if char == '`' {
            is_code = !is_code;
        }
        after_space = char == ' ';
    }
    begins.push(line.len());
    let words: Vec<_> = begins
        .windows(2)
        .map(|ends| Word::from(&line[ends[0]..ends[1]]))
        .collect();
    Box::new(words.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_wrapped_between_words_and_below_their_first_word() {
        let text = "× controllers are running\n    the Lease linkerd-multicluster/service-mirror-write does not exist\n";
        insta::assert_snapshot!(wrapped(text, Some(40), 0), @r"
        × controllers are running
            the Lease
            linkerd-multicluster/service-mirror-write
            does not exist
        ");
        assert_eq!(wrapped(text, None, 0), text);
        let hanging = wrapped("- network   not seen: no context was named", Some(30), 12);
        assert_eq!(
            hanging,
            "- network   not seen: no\n            context was named"
        );
    }

    #[test]
    fn commands_and_addresses_stay_in_one_piece() {
        for line in [
            "    run: kubectl --context west get pods --all-namespaces",
            "    see https://linkerd.io/2/checks/#l5d-multicluster-proxy-healthy for hints",
        ] {
            assert_eq!(wrapped(line, Some(20), 0), line);
        }
        let hint = "look at it with `kubectl get pods -A` and restart it";
        assert_eq!(
            wrapped(hint, Some(24), 0),
            "look at it with\n`kubectl get pods -A`\nand restart it"
        );
    }

    #[test]
    fn colours_take_no_room() {
        let line = "\u{1b}[31m1\u{1b}[0m two three";
        assert_eq!(wrapped(line, Some(8), 0), "\u{1b}[31m1\u{1b}[0m two\nthree");
    }
}
