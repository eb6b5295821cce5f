//! Records the pictures of the README: runs the real program in pseudo terminals, and writes the screens as SVG.
//!
//! ```text
//!   just picture
//! ```
//!
//! The first picture shows the playground from its start to its last step. The playground keeps running. The second
//! picture uses its clusters, programs and kubeconfig: while `status --watch` runs in the upper terminal, commands in
//! the lower one link a second cluster, export a Service, and let a federated Service fail over.
//!
//! The pictures leave out the output of cargo when it builds the playground, and the playground's last lines, which
//! name folders of this machine. They also leave out the warning of `link` that other clusters cannot reach a loopback
//! address. Pauses are shortened.

mod pane;
mod recording;
mod screen;
mod svg;

use std::{env, fs, path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use control_plane::Assets;

use crate::{pane::Surroundings, recording::Recording};

const PLAYGROUND: &str = "cargo run --example playground";
/// The end of the last line of the playground that is shown.
const LAST: &str = " s in all.";
/// A text near the end of the guide, which the playground prints after that line.
const GUIDE_END: &str = "The controller's log:";

const STATUS: &str = "linkerd-mc status --services --watch";
const LINK: &str = "linkerd-mc link --target east --source west";
const EXPORT: &str =
    "kubectl --context east -n shop label service api mirror.linkerd.io/exported=true";
const LOSE: &str = "kubectl -n shop delete pod cart-0 --wait=false";

/// Undoes some work of the playground before the second picture: unlinks `east`, and exports fewer Services.
const BEFORE: [&str; 3] = [
    "linkerd-mc --context west unlink east --apply --yes",
    "kubectl --context east -n shop label service db mirror.linkerd.io/exported-",
    "kubectl --context north -n shop label service cart mirror.linkerd.io/federated-",
];
/// Creates a running Pod in place of the deleted one, as a controller and a kubelet would.
const ANOTHER_POD: [&str; 2] = [
    r#"kubectl -n shop run cart-1 --image=shop/cart --labels=app=cart --overrides='{"spec":{"nodeName":"node"}}'"#,
    r#"kubectl -n shop patch pod cart-1 --subresource=status -p '{"status":{"phase":"Running","podIP":"10.42.1.9","podIPs":[{"ip":"10.42.1.9"}],"conditions":[{"type":"Ready","status":"True"}]}}'"#,
];

/// Timeout for all steps of the playground, and for the return to a preferred Pod.
const LIMIT: Duration = Duration::from_secs(300);
/// How long a picture stops so that people can read a line or two.
const READ: Duration = Duration::from_millis(1500);
/// The largest size of a picture in bytes. Code hosting sites show pictures of up to this size without delay.
const MAX_SIZE: usize = 150_000;

fn main() -> anyhow::Result<()> {
    // Kubernetes is built before the recording, because it takes minutes the first time.
    Assets::locate()?;
    let (playground, surroundings) = record_playground()?;
    write("playground.svg", &playground, &surroundings)?;
    aside(&surroundings, &BEFORE)?;
    write("status.svg", &record_status(&surroundings)?, &surroundings)
    // `playground` ends its clusters when it is dropped.
}

/// Records the playground, from its command to the last line before the guide. The playground keeps running afterwards.
fn record_playground() -> anyhow::Result<(Recording, Surroundings)> {
    let mut recording = Recording::new(80, &[("playground", 21)])?;
    recording.type_in(0, PLAYGROUND);
    let program = env::current_exe()?.with_file_name("clusters");
    recording.start(0, Surroundings::default().program(program), Some(LAST))?;
    recording.until(0, "the end of the playground", LIMIT, |pane| {
        pane.heard().contains(GUIDE_END)
    })?;
    recording.look(READ);
    let surroundings = Surroundings::of_guide(&recording.pane(0).heard())?;
    Ok((recording, surroundings))
}

/// Records `status` of west, and below it commands that change the status.
fn record_status(surroundings: &Surroundings) -> anyhow::Result<Recording> {
    let (above, below) = (0, 1);
    let mut recording = Recording::new(109, &[(STATUS, 15), ("another terminal", 13)])?;
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

/// Runs commands that are not recorded.
fn aside(surroundings: &Surroundings, commands: &[&str]) -> anyhow::Result<()> {
    for command in commands {
        let done = surroundings.shell(command).output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "`{command}` failed: {said}");
    }
    Ok(())
}

/// Writes a picture. Fails if it shows folders or addresses of this machine.
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
