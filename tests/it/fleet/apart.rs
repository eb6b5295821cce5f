//! `rotate --only`: nobody has access to both clusters of a link.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path};

use control_plane::ControlPlane;
use serde_json::Value;

use super::keep::{in_use, linked, results, tokens};
use crate::support::program::{Outcome, run};

/// Runs `rotate` with access to one cluster.
fn rotate(plane: &ControlPlane, file: &Path, flags: &[&str]) -> Outcome {
    let file = file.to_str().unwrap();
    let own = ["rotate", "--yes", "--file", file, "--only", plane.name()];
    run(plane.kubeconfig(), &[&own[..], flags].concat())
}

/// Takes the credentials in a file.
fn take(plane: &ControlPlane, file: &Path) {
    let file = file.to_str().unwrap();
    let own = [
        "link",
        "--from-file",
        file,
        "--source",
        plane.name(),
        "--yes",
    ];
    let taken = run(plane.kubeconfig(), &own);
    assert_eq!(taken.code, 0, "{}", taken.stderr);
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn pairs(pairs: &[(&str, &str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(source, target, result)| (format!("{source}/{target}"), (*result).to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn rotation_needs_no_rights_in_both_clusters_of_a_link() {
    let names @ [of_east, of_north, of_west] = ["apart-east", "apart-north", "apart-west"];
    let (mut fleet, mesh, _controllers) = linked("apart", &names).await;
    let planes = fleet.planes.clone();
    let [east, north, west] = &planes;
    let folder = fleet.folder.path().join("handed");
    let handed = folder.to_str().unwrap();

    // East creates a new token for each of the others. The second time, it hands over the same tokens.
    let since = in_use(west, east).await;
    let credentials = ["fleet", "credentials", "--file", mesh.to_str().unwrap()];
    let target = ["--target", of_east, "--new-tokens", "--output-dir", handed];
    for _ in 0..2 {
        let made = run(east.kubeconfig(), &[&credentials[..], &target].concat());
        assert_eq!(made.code, 0, "{}", made.stderr);
        for source in [of_north, of_west] {
            let step = format!("{source}/{of_east}.yaml");
            assert!(made.stdout.contains(&step), "{}", made.stdout);
        }
        assert_eq!(tokens(east, &names).await[of_west].len(), 2);
    }
    let own = folder.join(of_west).join(format!("{of_east}.yaml"));
    let mode = fs::metadata(&own).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(in_use(west, east).await, since);

    // West takes its token, and restarts Linkerd.
    take(west, &own);
    let link = format!("{of_west}/{of_east}");
    fleet.writes();
    let taken = rotate(west, &mesh, &[&link, "-o=json"]);
    assert_eq!(taken.code, 0, "{}", taken.stderr);
    assert_eq!(results(&taken), pairs(&[(of_west, of_east, "inUse")]));
    let restart = format!("{of_west} patch deployments/linkerd-destination");
    assert_eq!(fleet.writes(), [restart]);
    let (held, name) = in_use(west, east).await;
    assert_ne!((&held, &name), (&since.0, &since.1));
    assert_eq!(tokens(east, &names).await[of_west].len(), 2);

    // East revokes the old token with the command that `rotate` printed for it.
    let remaining = &json(&taken)["remaining"][0];
    assert_eq!(remaining["cluster"], of_east);
    let command = remaining["command"].as_str().unwrap();
    let flag = format!("--in-use {of_west}={name}");
    assert!(
        command.ends_with(&format!("--only {of_east} {flag}")),
        "{command}"
    );
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let unknown = format!("--in-use={of_west}=unknown");
    let refused = rotate(east, &mesh, &[&link, &unknown]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("has no token Secret unknown"),
        "{}",
        refused.stderr
    );
    let revoked = run(
        east.kubeconfig(),
        &[&words[..], &[&link, "-o=json"]].concat(),
    );
    assert_eq!(
        results(&revoked),
        pairs(&[(of_west, of_east, "revoked")]),
        "{}",
        revoked.stderr
    );
    assert_eq!(
        tokens(east, &names).await[of_west],
        std::slice::from_ref(&name)
    );

    // Another tool writes the new credentials in north, such as a store of secrets.
    let others = folder.join(of_north).join(format!("{of_east}.yaml"));
    north
        .kubectl(&["apply", "-f", others.to_str().unwrap()])
        .await
        .unwrap();
    let link = format!("{of_north}/{of_east}");
    fleet.writes();
    let confirmed = rotate(north, &mesh, &[&link]);
    assert_eq!(confirmed.code, 0, "{}", confirmed.stderr);
    let restart = format!("{of_north} patch deployments/linkerd-destination");
    assert_eq!(fleet.writes(), [restart]);
    let (_, name) = in_use(north, east).await;
    let end = format!("--only {of_east} --in-use {of_north}={name}\n");
    assert!(confirmed.stdout.ends_with(&end), "{}", confirmed.stdout);

    // The clusters match the file. The rotation of north lacks only its last step: nobody has revoked the old token. So
    // `rotate` with access to all clusters does this, although the new token is young.
    let planned = fleet.run("plan", &mesh, &[]);
    assert_eq!(planned.stdout, "Nothing to do.\n", "{}", planned.stderr);
    let young = fleet.run("rotate", &mesh, &["--older-than=1h", &link, "-o=json"]);
    assert_eq!(
        results(&young),
        pairs(&[(of_north, of_east, "rotated")]),
        "{}",
        young.stderr
    );
    assert_eq!(tokens(east, &names).await[of_north], [name]);
}
