//! Records the pictures of the README: real runs of the real program, under pseudo terminals, written as SVG.
//!
//! ```text
//!   just picture
//! ```
//!
//! The first picture is the playground from its start to its end. The playground stays up, and the second picture is
//! made against its clusters, with the programs and the kubeconfig that it offers to explore them: a second cluster is
//! linked while `status --watch` runs above, a Service is exported, and a federated Service fails over.
//!
//! Three things are left out: what cargo says when it builds the playground, the playground's last lines, which name
//! folders of this machine, and the warning of `link` that a loopback address is no address for other clusters. Pauses
//! are shortened.

mod pane;
mod recording;
mod screen;
mod svg;

use std::{env, fs, path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use control_plane::Assets;

use crate::{pane::Surroundings, recording::Recording};

const PLAYGROUND: &str = "cargo run --release --example playground";
/// The last of its lines that is shown.
const LAST: &str = " s in all.";
/// What the lines after it end with.
const GUIDE_END: &str = "The controller's log:";

const STATUS: &str = "linkerd-mc status --services --watch";
const LINK: &str = "linkerd-mc link --from east --to west";
const EXPORT: &str =
    "kubectl --context east -n shop label service api mirror.linkerd.io/exported=true";
const LOSE: &str = "kubectl -n shop delete pod cart-0 --wait=false";

/// What is taken back of what the playground did, before the second picture: east is not linked, and less is exported.
const BEFORE: [&str; 3] = [
    "linkerd-mc --context west unlink --cluster-name east --apply --yes",
    "kubectl --context east -n shop label service db mirror.linkerd.io/exported-",
    "kubectl --context north -n shop label service cart mirror.linkerd.io/federated-",
];
/// What would happen by itself in a cluster that has kubelets: another Pod runs in the place of one that was deleted.
const ANOTHER_POD: [&str; 2] = [
    r#"kubectl -n shop run cart-1 --image=shop/cart --labels=app=cart --overrides='{"spec":{"nodeName":"node"}}'"#,
    r#"kubectl -n shop patch pod cart-1 --subresource=status -p '{"status":{"phase":"Running","podIP":"10.42.1.9","podIPs":[{"ip":"10.42.1.9"}],"conditions":[{"type":"Ready","status":"True"}]}}'"#,
];

/// How long the clusters may take for anything.
const LIMIT: Duration = Duration::from_secs(300);
/// Long enough to read a line or two.
const READ: Duration = Duration::from_millis(1500);
/// A code forge shows pictures of this size without delay.
const MAX_SIZE: usize = 150_000;

fn main() -> anyhow::Result<()> {
    // Building Kubernetes, the first time, is not for a picture.
    Assets::locate()?;
    let (playground, surroundings) = record_playground()?;
    write("playground.svg", &playground, &surroundings)?;
    aside(&surroundings, &BEFORE)?;
    write("status.svg", &record_status(&surroundings)?, &surroundings)
    // `playground` ends its clusters when it is dropped.
}

/// The playground, from its command to its last line but the guide. It stays up.
fn record_playground() -> anyhow::Result<(Recording, Surroundings)> {
    let mut recording = Recording::new(80, &[("playground", 21)])?;
    recording.type_in(0, PLAYGROUND);
    let program = env::current_exe()?.with_file_name("playground");
    recording.start(0, Surroundings::default().program(program), Some(LAST))?;
    recording.until(0, "the end of the playground", LIMIT, |pane| {
        pane.heard().contains(GUIDE_END)
    })?;
    recording.look(READ);
    let surroundings = Surroundings::of_guide(&recording.pane(0).heard())?;
    Ok((recording, surroundings))
}

/// The status of west above, and below it commands that change it.
fn record_status(surroundings: &Surroundings) -> anyhow::Result<Recording> {
    let (above, below) = (0, 1);
    let mut recording = Recording::new(107, &[(STATUS, 9), ("another terminal", 13)])?;
    recording.type_in(above, STATUS);
    recording.start(above, surroundings.shell(STATUS), None)?;
    recording.until_shows(above, "api-north")?;
    recording.look(READ);

    recording.run(below, LINK, surroundings)?;
    recording.until_shows(above, "web-east")?;
    recording.look(READ);

    recording.run(below, EXPORT, surroundings)?;
    recording.until_shows(above, "api-east")?;
    recording.look(READ);

    recording.comment(below, "# west loses its own Pod of cart");
    recording.run(below, LOSE, surroundings)?;
    recording.until_shows(above, "failed over")?;
    recording.look(2 * READ);

    recording.comment(
        below,
        "# it gets another one, which is preferred after a moment (here 5s)",
    );
    aside(surroundings, &ANOTHER_POD)?;
    recording.until(above, "the return to the preferred Pod", LIMIT, |pane| {
        !pane.shown().contains("failed over")
    })?;
    recording.look(READ);
    Ok(recording)
}

/// Runs commands that are not shown.
fn aside(surroundings: &Surroundings, commands: &[&str]) -> anyhow::Result<()> {
    for command in commands {
        let done = surroundings.shell(command).output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "`{command}` failed: {said}");
    }
    Ok(())
}

/// Writes a picture, unless it shows what is this machine's business.
fn write(name: &str, recording: &Recording, surroundings: &Surroundings) -> anyhow::Result<()> {
    let picture = svg::draw(recording);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let home = env::var("HOME").unwrap_or_default();
    let private = [
        folder.to_string_lossy().into_owned(),
        env::temp_dir().to_string_lossy().into_owned(),
        surroundings.kubeconfig.clone(),
        home,
    ];
    let private = private
        .iter()
        .map(String::as_str)
        .filter(|text| text.len() > 1);
    for text in private.chain(["127.0.0.1", "localhost", "[::1]", "eyJ"]) {
        ensure!(!picture.contains(text), "{name} would show {text}");
    }
    let size = picture.len();
    ensure!(
        size <= MAX_SIZE,
        "{name} would have {size} bytes; the limit is {MAX_SIZE}"
    );
    let file = folder.join("docs/pictures").join(name);
    fs::write(&file, picture).with_context(|| format!("failed to write {}", file.display()))
}
