//! Input of unknown origin: random bytes for each of the properties that the fuzz targets hold as well, and commands with
//! bad flags, kubeconfigs and API servers.

mod commands;
mod properties;
mod random_bytes;

type Holds = fn(&[u8]);

/// Inputs that have broken a property once.
#[test]
fn each_seed_of_the_fuzz_targets_holds() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds");
    let targets: [(&str, Holds); 7] = [
        ("kubeconfig", properties::kubeconfig),
        ("link", properties::link),
        ("exclusions", properties::exclusions),
        ("names", properties::names),
        ("networks", properties::networks),
        ("selector", properties::selector),
        ("values", properties::values),
    ];
    for (target, holds) in targets {
        let files: Vec<_> = std::fs::read_dir(format!("{seeds}/{target}"))
            .unwrap()
            .collect();
        assert!(files.len() > 1, "{target} has {} seeds", files.len());
        for file in files {
            holds(&std::fs::read(file.unwrap().path()).unwrap());
        }
    }
}
