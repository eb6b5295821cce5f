//! What the workflows of GitHub Actions run: recipes of the justfile and scripts of this repository, so that it can be
//! tried on any machine. That they are valid is checked by actionlint, in `packaging/check`. Recipes quote their arguments,
//! and what builds a release is pinned.

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::Value;

use crate::{read, root};

/// Scripts that a step may run besides recipes.
const SCRIPTS: [&str; 3] = [".ci/run", "packaging/on-main", "packaging/tools"];

/// Recipes that a release needs and that are still to be written. One that exists may not be listed.
const NOT_YET: [&str; 0] = [];

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
    let release = release();
    assert_eq!(release["permissions"], serde_json::json!({}));
    for (name, job) in release["jobs"].as_object().unwrap() {
        let read_only = serde_json::json!({ "contents": "read" });
        assert_eq!(job["permissions"] != read_only, name == "publish", "{name}");
    }
}

/// The release workflow.
fn release() -> Value {
    let all = workflows().into_iter();
    let mut release = all.filter(|(path, _)| path.ends_with("release.yml"));
    release.next().unwrap().1
}

#[test]
fn images_that_builds_run_in_are_pinned_and_the_same() {
    let dockerfile = read("Dockerfile");
    let bases = dockerfile
        .lines()
        .filter_map(|line| line.strip_prefix("FROM "));
    let bases = bases.map(|base| base.split(' ').next().unwrap().to_owned());
    let release = release();
    let containers = ["binaries", "images"].into_iter().flat_map(|job| {
        let builds = release["jobs"][job]["strategy"]["matrix"]["include"].as_array();
        let builds = builds.unwrap().iter();
        builds.map(|build| build["container"].as_str().unwrap().to_owned())
    });
    let all: BTreeSet<String> = bases.chain(containers).collect();
    // No container at all, and the image without any file.
    let known = all
        .iter()
        .filter(|name| !["", "scratch"].contains(&name.as_str()));
    let known: Vec<&String> = known.collect();
    let [image] = known[..] else {
        panic!("several images: {known:?}");
    };
    let (_, digest) = image.split_once("@sha256:").unwrap();
    assert!(
        digest.len() == 64 && digest.chars().all(|c| c.is_ascii_hexdigit()),
        "{image}"
    );
}

#[test]
fn what_runs_in_clusters_is_compiled_in_the_pinned_image() {
    let release = release();
    for job in ["binaries", "images"] {
        let job = &release["jobs"][job];
        assert_eq!(job["container"], "${{ matrix.container }}");
        for build in job["strategy"]["matrix"]["include"].as_array().unwrap() {
            let is_linux = build["runner"].as_str().unwrap().starts_with("ubuntu");
            assert_eq!(build["container"] != "", is_linux, "{build}");
        }
    }
}

#[test]
fn only_commits_on_main_are_released() {
    let release = release();
    let steps = release["jobs"]["test"]["steps"].as_array().unwrap();
    assert_eq!(steps[0]["with"]["fetch-depth"], 0);
    assert_eq!(steps[1]["run"], "packaging/on-main");
    let needs = release["jobs"]["publish"]["needs"].as_array().unwrap();
    assert!(needs.contains(&"test".into()));
}

#[test]
fn job_that_publishes_installs_only_what_it_needs() {
    let release = release();
    let steps = release["jobs"]["publish"]["steps"].as_array().unwrap();
    let tools = steps.iter().filter_map(|step| step["run"].as_str());
    let tools: Vec<_> = tools
        .filter(|run| run.contains("packaging/tools"))
        .collect();
    assert_eq!(tools, ["packaging/tools rust-just >> \"$GITHUB_PATH\""]);
    assert!(read("packaging/requirements.txt").contains("\nrust-just=="));
    let uses = steps.iter().filter_map(|step| step["uses"].as_str());
    let uses: BTreeSet<_> = uses
        .map(|action| action.split('@').next().unwrap())
        .collect();
    let needed = [
        "actions/attest",
        "actions/checkout",
        "actions/download-artifact",
        "sigstore/cosign-installer",
    ];
    assert_eq!(uses.into_iter().collect::<Vec<_>>(), needed);
}

/// The places at which a justfile puts an argument of a recipe into a command without quoting it.
fn unquoted(justfile: &str) -> Vec<&str> {
    let (mut parameters, mut found) = (BTreeSet::new(), Vec::new());
    for line in justfile.lines() {
        if line.starts_with(|first: char| first.is_ascii_lowercase()) && !line.contains(":=") {
            let head = line.rsplit_once(':').map_or(line, |(head, _)| head);
            let words = head.split_whitespace().skip(1);
            let names = words.map(|word| word.trim_start_matches(['*', '+', '$']));
            parameters = names.filter_map(|name| name.split('=').next()).collect();
        }
        let inserted = line
            .split("{{")
            .skip(1)
            .filter_map(|rest| rest.split("}}").next());
        let bare = inserted.filter(|inside| !inside.trim().starts_with("quote("));
        let mut words = bare
            .flat_map(|inside| inside.split(|c: char| !(c.is_alphanumeric() || "_-".contains(c))));
        if words.any(|word| parameters.contains(word)) {
            found.push(line.trim());
        }
    }
    found
}

#[test]
fn recipes_quote_their_arguments() {
    let justfile = read("justfile");
    assert!(justfile.contains("\nset positional-arguments\n"));
    assert_eq!(unquoted(&justfile), [""; 0]);
    let example = "a := \"b\"\nx version +more:\n    y {{version}}\n    {{a}} {{quote(version)}}\n    z v{{ more }}\n";
    assert_eq!(unquoted(example), ["y {{version}}", "z v{{ more }}"]);
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
