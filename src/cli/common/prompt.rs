//! Questions on a terminal. The end of the input, as after Ctrl-D, is a no.

use std::io::{BufRead, IsTerminal as _};

use hints::hint::fail;

use super::output;

/// Whether somebody can answer.
pub fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Fails with this hint if nobody can answer.
pub fn check_can_ask(otherwise: &str) -> anyhow::Result<()> {
    if can_ask() {
        return Ok(());
    }
    Err(fail(
        "cannot prompt for confirmation: stdin or stderr is not a terminal",
        otherwise,
    ))
}

/// Asks for confirmation. Fails with this hint if nobody can answer.
pub fn confirmed(question: &str, otherwise: &str) -> anyhow::Result<bool> {
    check_can_ask(otherwise)?;
    output::prompt(&format!("{question} [y/N]:"));
    let answer = line(&mut std::io::stdin().lock())?;
    Ok(answer.is_some_and(|answer| is_yes(&answer)))
}

/// The answer was no. There is no hint: somebody who declines does not want to know how to be asked no more.
pub fn canceled() -> anyhow::Error {
    anyhow::Error::msg("canceled: nothing was changed")
}

/// Asks for one of these choices, by its number or its name. `None` if none was chosen.
pub fn chosen(question: &str, choices: &[&str]) -> anyhow::Result<Option<usize>> {
    for (at, choice) in choices.iter().enumerate() {
        output::line(&format!("{}) {choice}", at + 1));
    }
    let mut stdin = std::io::stdin().lock();
    loop {
        output::prompt(&format!("{question} [1-{}]:", choices.len()));
        let Some(answer) = line(&mut stdin)?.filter(|answer| !answer.is_empty()) else {
            return Ok(None);
        };
        if let Some(at) = choice(&answer, choices) {
            return Ok(Some(at));
        }
        output::line(&format!("{answer:?} is none of them"));
    }
}

/// The next line. `None` at the end of the input.
fn line(input: &mut impl BufRead) -> std::io::Result<Option<String>> {
    let mut answer = String::new();
    if input.read_line(&mut answer)? == 0 {
        output::line("");
        return Ok(None);
    }
    Ok(Some(answer.trim().to_owned()))
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.to_lowercase().as_str())
}

/// The index of a choice, which is named or counted from 1.
fn choice(answer: &str, choices: &[&str]) -> Option<usize> {
    let named = choices.iter().position(|choice| *choice == answer);
    named.or_else(|| {
        let at = answer.parse::<usize>().ok()?.checked_sub(1)?;
        (at < choices.len()).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_confirms() {
        for (typed, expected) in [
            ("y\n", true),
            (" Yes\n", true),
            ("n\n", false),
            ("\n", false),
            ("", false),
            ("yesterday\ny\n", false),
        ] {
            let answer = line(&mut typed.as_bytes()).unwrap();
            assert_eq!(answer.is_some_and(|a| is_yes(&a)), expected, "{typed}");
        }
    }

    #[test]
    fn choices_are_named_or_counted_from_one() {
        let choices = ["east", "2"];
        for (answer, expected) in [
            ("east", Some(0)),
            ("1", Some(0)),
            ("2", Some(1)),
            ("0", None),
            ("3", None),
            ("west", None),
        ] {
            assert_eq!(choice(answer, &choices), expected, "{answer}");
        }
    }
}
