//! Makes the container image of linkerd-mc as an OCI image layout in a folder, without a container engine. The same
//! binaries give the same bytes.
//!
//! The image has the name and the tag in the values of the Helm chart. These are generated from the defaults of
//! `linkerd-mc install`.

mod contents;
mod layout;

pub use contents::{File, Files, Platform, USER, unpack};
pub use layout::{Written, archive, write};

use anyhow::Context as _;
use serde_json::Value;

const VALUES: &str = include_str!("../../../charts/linkerd-mc/values.yaml");

/// Name and tag of the image that `install` and the chart ask for.
pub fn name_and_tag() -> anyhow::Result<(String, String)> {
    let values: Value = serde_saphyr::from_str(VALUES).context("values.yaml cannot be read")?;
    let field = |key: &str| {
        let value = values.pointer(&format!("/controller/image/{key}"));
        let text = value.and_then(Value::as_str).map(str::to_owned);
        text.with_context(|| format!("values.yaml has no controller.image.{key}"))
    };
    Ok((field("name")?, field("version")?))
}
