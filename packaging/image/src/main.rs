//! Makes the container image of the controller from its binary. `just image` builds the binary and runs this.
//!
//! `skopeo copy oci:target/image docker://registry.example.com/linkerd-mc:0.1.0` pushes the image.

#![allow(clippy::print_stdout, reason = "it tells what it has made")]

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use container_image::{Platform, archive, name_and_tag, unpack, write};

/// Writes the container image of linkerd-mc as an OCI image layout
#[derive(Debug, Parser)]
struct Args {
    /// The program, as the image shall have it; once for each architecture
    #[arg(long, value_name = "FILE", required = true)]
    binary: Vec<PathBuf>,
    /// Write the image layout into this folder, which must not exist
    #[arg(long, value_name = "FOLDER", required_unless_present = "root")]
    layout: Option<PathBuf>,
    /// Write the files of the image of one binary into this folder, which must not exist
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let platforms: Vec<_> = args
        .binary
        .iter()
        .map(|binary| Platform::of(binary))
        .collect::<anyhow::Result<_>>()?;
    if let Some(folder) = &args.root {
        let [platform] = &platforms[..] else {
            anyhow::bail!("--root takes one --binary");
        };
        unpack(&archive(&platform.files)?, folder)?;
    }
    if let Some(folder) = &args.layout {
        let (name, tag) = name_and_tag()?;
        let written = write(folder, &name, &tag, &platforms)?;
        for (platform, layer) in platforms.iter().zip(&written.layers) {
            println!(
                "{}: {} files, {:.1} MB, compressed {:.1} MB",
                platform.architecture,
                platform.files.len(),
                megabytes(platform.files.values().map(|file| file.data.len()).sum())?,
                megabytes(*layer)?,
            );
        }
        println!("{name}:{tag}@{}", written.digest);
    }
    Ok(())
}

fn megabytes(bytes: usize) -> anyhow::Result<f64> {
    let bytes = u32::try_from(bytes).context("the image has more than 4 GB")?;
    Ok(f64::from(bytes) / 1e6)
}
