//! What happens to our controller.

use std::time::Duration;

use tokio::time::sleep;

use super::without_failures;
use crate::{
    load::Load,
    rig::{Rig, mirrors::FOLLOWS},
    table::Row,
};

const TIMES: usize = 5;
/// How long it is away, and how long it runs before it is killed again.
const HOLD: Duration = Duration::from_secs(3);

/// It is killed again and again: requests do not notice.
pub(super) async fn killed(rig: &mut Rig) -> anyhow::Result<Row> {
    let load = Load::start(&rig.client, &rig.targets().await?);
    rig.proxy_is_right(FOLLOWS).await?;
    for _ in 0..TIMES {
        rig.controller.kill();
        sleep(HOLD).await;
        rig.controller.restart().await?;
        sleep(HOLD).await;
    }
    rig.link_is_ready().await?;
    rig.proxy_is_right(FOLLOWS).await?;
    without_failures(&load.finish().await?)
}
