//! The completion script of bash, with the real program: bash splits words at `=` and `:`.

use std::{fs, os::unix::fs::symlink, process::Command};

use crate::{installed, succeed};

const KUBECONFIG: &str = "
current-context: kind-a
contexts:
- {name: kind-a, context: {cluster: x}}
- {name: 'arn:aws:eks:eu:1:cluster/east', context: {cluster: x}}
- {name: 'arn:aws:eks:eu:1:cluster/west', context: {cluster: x}}
clusters: [{name: x, cluster: {server: 'http://127.0.0.1:1'}}]
";

/// Sets what bash sets for a line with the cursor at its end, whose last words are these, and prints the answers.
const ASK: &str = r#"
source <(linkerd-mc completions bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
current=${COMP_WORDS[COMP_CWORD]}
[[ $current == [=:] ]] && current=
call=$(complete -p linkerd-mc)
call=${call##* -F }
${call% *} linkerd-mc "$current" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

#[test]
fn words_that_bash_splits_are_completed() {
    if !installed(&["bash"], "words_that_bash_splits_are_completed") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    symlink(
        env!("CARGO_BIN_EXE_linkerd-mc"),
        folder.path().join("linkerd-mc"),
    )
    .unwrap();
    fs::write(folder.path().join("kubeconfig"), KUBECONFIG).unwrap();
    fs::write(folder.path().join("values.yaml"), "").unwrap();
    let path = std::env::var("PATH").unwrap();
    let both = "aws:eks:eu:1:cluster/east aws:eks:eu:1:cluster/west";
    let all = "arn:aws:eks:eu:1:cluster/east arn:aws:eks:eu:1:cluster/west kind-a";
    for (line, words, expected) in [
        ("status --context k", "status --context k", "kind-a"),
        ("status --context=k", "status --context = k", "kind-a"),
        ("status --context=", "status --context =", all),
        ("status --context arn:aw", "status --context arn : aw", both),
        (
            "status --context=arn:aw",
            "status --context = arn : aw",
            both,
        ),
        (
            "status --context kind-a,arn:aw",
            "status --context kind-a,arn : aw",
            both,
        ),
        (
            "status --context arn:aws:eks:eu:1:cluster/e",
            "status --context arn : aws : eks : eu : 1 : cluster/e",
            "cluster/east",
        ),
        ("install -f ./v", "install -f ./v", "./values.yaml"),
        (
            "install --values=./v",
            "install --values = ./v",
            "./values.yaml",
        ),
        ("stat", "stat", "status"),
    ] {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", ASK, "bash"])
            .arg(format!("linkerd-mc {line}"))
            .arg("linkerd-mc")
            .args(words.split(' '))
            .current_dir(folder.path())
            .env("PATH", format!("{}:{path}", folder.path().display()))
            .env("KUBECONFIG", folder.path().join("kubeconfig"));
        let answers = succeed(&mut bash);
        let answers: Vec<&str> = answers.lines().collect();
        assert_eq!(answers.join(" "), expected, "{line}");
    }
}
