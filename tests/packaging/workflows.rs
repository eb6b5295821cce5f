//! What the workflows of GitHub Actions run: recipes of the justfile and scripts of this repository, so that it can be tried
//! on any machine. That they are valid is checked by actionlint, in `packaging/check`.

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::Value;

use crate::{read, root};

/// Scripts that a step may run besides recipes.
const SCRIPTS: [&str; 2] = [".ci/run", "packaging/tools"];

/// Recipes that a release needs and that are still to be written. One that exists may not be listed.
const NOT_YET: [&str; 1] = ["image"];

/// The workflows, with their names.
fn workflows() -> Vec<(PathBuf, Value)> {
    let entries = fs::read_dir(root().join(".github/workflows")).unwrap();
    entries
        .flatten()
        .map(|entry| {
            let text = fs::read_to_string(entry.path()).unwrap();
            (entry.path(), serde_saphyr::from_str(&text).unwrap())
        })
        .collect()
}

/// The steps of all jobs of a workflow.
fn steps(workflow: &Value) -> Vec<&Value> {
    let jobs = workflow["jobs"].as_object().unwrap().values();
    jobs.flat_map(|job| job["steps"].as_array().unwrap())
        .collect()
}

/// The names of the recipes.
fn recipes() -> BTreeSet<String> {
    let justfile = read("justfile");
    let heads = justfile
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    let heads = heads.filter(|line| !line.contains(":="));
    heads
        .filter_map(|line| Some(line.split([' ', ':']).next()?.to_owned()))
        .collect()
}

/// The recipes that a script calls: each `just` that begins a command.
fn called(script: &str) -> Vec<&str> {
    let commands = script.split(['\n', ';', '|', '(', '&']).map(str::trim);
    commands
        .filter_map(|command| command.strip_prefix("just ")?.split_whitespace().next())
        .collect()
}

#[test]
fn each_step_runs_a_recipe_that_exists_or_a_script_of_this_repository() {
    let recipes = recipes();
    assert!(
        recipes.contains("deny") && recipes.contains("ci"),
        "{recipes:?}"
    );
    assert!(
        !NOT_YET.iter().any(|name| recipes.contains(*name)),
        "{NOT_YET:?}"
    );
    let (mut calls, mut wrong) = (0, Vec::new());
    for (path, workflow) in workflows() {
        for script in steps(&workflow)
            .iter()
            .filter_map(|step| step["run"].as_str())
        {
            let called = called(script);
            calls += called.len();
            let own = SCRIPTS
                .iter()
                .any(|own| script.starts_with(own) && root().join(own).is_file());
            let unknown = called
                .iter()
                .any(|recipe| !recipes.contains(*recipe) && !NOT_YET.contains(recipe));
            if unknown || called.is_empty() && !own || script.lines().count() > 1 {
                wrong.push(format!("{}: {script}", path.display()));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(calls > 15, "only {calls} recipes are called");
}

#[test]
fn each_action_is_pinned_by_its_commit_and_says_the_version() {
    let mut actions = 0;
    for (path, workflow) in workflows() {
        let text = fs::read_to_string(&path).unwrap();
        for action in steps(&workflow)
            .iter()
            .filter_map(|step| step["uses"].as_str())
        {
            let (_, commit) = action.split_once('@').unwrap();
            assert!(
                commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit()),
                "{action}"
            );
            assert!(
                text.contains(&format!("{action} # v")),
                "{action} has no version"
            );
            actions += 1;
        }
    }
    assert!(actions > 10, "only {actions} actions found");
}

#[test]
fn only_the_job_that_publishes_may_write_or_sign() {
    let (_, release) = workflows()
        .into_iter()
        .find(|(path, _)| path.ends_with("release.yml"))
        .unwrap();
    assert_eq!(release["permissions"], serde_json::json!({}));
    for (name, job) in release["jobs"].as_object().unwrap() {
        let read_only = serde_json::json!({ "contents": "read" });
        assert_eq!(job["permissions"] != read_only, name == "publish", "{name}");
    }
}

#[test]
fn a_call_of_a_recipe_is_recognized() {
    assert_eq!(called("just deny"), ["deny"]);
    assert_eq!(
        called("echo \"digest=$(just image-x a b)\" >> x"),
        ["image-x"]
    );
    assert_eq!(called("just a && just b \"$X\""), ["a", "b"]);
    assert_eq!(called("adjust a"), [""; 0]);
}
