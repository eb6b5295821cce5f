//! What thieves of tokens can do: `attack` says what the API server answers, docs/security.md has the same table, and
//! the command changes nothing.

use std::{collections::BTreeMap, path::Path};

use control_plane::{ControlPlane, eventually};
use serde_json::Value;

use crate::support::{
    SOON,
    audit::{mark, requests},
    installation::{ACCOUNT, NAMESPACE, reinstall},
    planes::installed,
    program::run,
};

const PAGE: &str = "docs/security.md";
/// What is around the table of a page.
const BEGIN: &str = "<!-- what `attack` says -->\n";
const END: &str = "<!-- end -->\n";

/// What `attack` says: a row for each attempt, and in it what each kind of account gets.
fn rows(report: &Value) -> Vec<(String, BTreeMap<String, String>)> {
    let mut rows: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    for thief in report.as_array().unwrap() {
        let kind = thief["kind"].as_str().unwrap();
        for tried in thief["attempts"].as_array().unwrap() {
            let attempt = tried["attempt"].as_str().unwrap();
            let answer = match tried["answer"].as_str().unwrap() {
                "refusedByRights" => "no right".to_owned(),
                "refusedByAdmission" => format!("policy `{}`", tried["by"].as_str().unwrap()),
                "nothingThere" => "nothing there".to_owned(),
                "permitted" if tried["permittedBecause"].is_string() => "permitted".to_owned(),
                other => format!("**{other}**"),
            };
            let known = rows.iter().position(|(of, _)| of == attempt);
            let at = known.unwrap_or_else(|| {
                rows.push((attempt.to_owned(), BTreeMap::new()));
                rows.len() - 1
            });
            rows[at].1.insert(kind.to_owned(), answer);
        }
    }
    rows
}

fn table(report: &Value) -> String {
    let mut text = "| What a thief tries | Token of the controller | Token of another cluster |\n| --- | --- | --- |\n"
        .to_owned();
    for (attempt, answers) in rows(report) {
        let of = |kind: &str| answers.get(kind).map_or("–", String::as_str);
        let row = [&attempt, of("controller"), of("remoteAccess")].join(" | ");
        text += &["| ", &row, " |\n"].concat();
    }
    text
}

fn attacked(plane: &ControlPlane, code: i32) -> Value {
    let outcome = run(plane.kubeconfig(), &["attack", "-o", "json"]);
    assert_eq!(outcome.code, code, "{}{}", outcome.stdout, outcome.stderr);
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn thieves_of_tokens_get_what_the_page_says_and_attack_changes_nothing() {
    let plane = installed("attacked", "192.0.2.71").await;
    plane.install_gateway_api().await.unwrap();
    let since = mark(&plane);
    let report = attacked(&plane, 0);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the begin of the table");
    let (kept, after) = rest.split_once(END).expect("the end of the table");
    let table = format!("\n{}\n", table(&report));
    if kept != table && std::env::var_os("LINKERD_MC_DRAW").is_some() {
        std::fs::write(&page, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert_eq!(kept, table, "run this test with LINKERD_MC_DRAW=1");
    }
    // A stored token is beside the controller, unless the accounts have a namespace of their own.
    let token = "remoteMirrorServiceAccountToken=true";
    let own = "remoteMirrorServiceAccountNamespace=linkerd-multicluster-access";
    let read = "Read a token with which another cluster reads this one";
    let open = "Open the gateway to another namespace";
    let of_gateway = "policy `linkerd-multicluster-controller-gateway`";
    let open_api_server = "Open the gateway to the API server";
    for (values, code, answers) in [
        (token.to_owned(), 1, &[(read, "**permitted**")][..]),
        (format!("{token},{own}"), 0, &[(read, "no right")]),
        (
            format!("{own},gateway.forward=exported"),
            0,
            &[
                (read, "no right"),
                (open, "permitted"),
                (open_api_server, of_gateway),
                ("Change the program of the gateway", of_gateway),
            ],
        ),
    ] {
        reinstall(&plane, &["--set", &values]).await;
        if values.contains(own) {
            let old = ["serviceaccount", ACCOUNT, "--ignore-not-found"];
            let delete = [&["-n", NAMESPACE, "delete"], &old[..]].concat();
            plane.kubectl(&delete).await.unwrap();
        }
        let mut expected = rows(&report);
        for (attempt, row) in &mut expected {
            let answer = answers.iter().find(|(of, _)| of == attempt);
            if let Some((_, answer)) = answer {
                row.insert("controller".to_owned(), (*answer).to_owned());
            }
        }
        // The API server reads policies from a cache.
        eventually("the new policies to be in force", SOON, async || {
            let outcome = run(plane.kubeconfig(), &["attack", "-o", "json"]);
            let found = rows(&serde_json::from_str(&outcome.stdout)?);
            anyhow::ensure!(
                (outcome.code, &found) == (code, &expected),
                "{values}: {found:?}"
            );
            Ok(Some(()))
        })
        .await
        .unwrap();
    }
    // All writes of thieves are dry runs. They are not sent with the token itself.
    let sent = requests(&plane, since);
    let thieves = sent.iter().filter(|event| {
        event.uri.contains("linkerd-mc-attack") || event.uri.contains("dryRun=All")
    });
    let wrong: Vec<_> = thieves
        .filter(|event| event.is_write() && !event.uri.contains("dryRun=All"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(
        sent.iter()
            .filter(|event| event.uri.contains("dryRun=All"))
            .count()
            > 30
    );
}
