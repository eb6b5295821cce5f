//! Runs both programs with a case, each with servers of its own.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use tokio::process::Command;

use crate::{
    case::{Case, Edit},
    material::{Material, older, pem},
    servers::{Servers, Tls},
};

/// What both programs need.
pub(crate) struct Programs {
    pub(crate) kubectl: PathBuf,
    pub(crate) tls: Arc<Tls>,
    pub(crate) material: Material,
    /// That of another authority.
    pub(crate) other: Material,
}

/// What a program did.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// What arrived at the servers.
    pub(crate) arrived: Vec<String>,
    /// How often the plugin ran: not at all, once or more often.
    pub(crate) runs: usize,
    /// Exit code and messages, which may differ.
    pub(crate) said: String,
}

impl Outcome {
    /// Whether nothing arrived, and no plugin ran.
    pub(crate) fn did_nothing(&self) -> bool {
        self.arrived.is_empty() && self.runs == 0
    }

    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.arrived == other.arrived && self.runs == other.runs
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrived = self.arrived.join("; ");
        write!(f, "[{arrived}] plugin: {}; {}", self.runs, self.said)
    }
}

/// What both programs did: kubectl, then linkerd-mc.
pub(crate) async fn both(programs: &Programs, case: &Case) -> [Outcome; 2] {
    let ours = Path::new(env!("CARGO_BIN_EXE_linkerd-mc"));
    [
        run(programs, &programs.kubectl, case).await,
        run(programs, ours, case).await,
    ]
}

async fn run(programs: &Programs, program: &Path, case: &Case) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let servers = Servers::start(&programs.tls).await;
    let fill = |text: &str| filled(programs, &servers, folder.path(), text);
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let material = &programs.material;
    file("ca.crt", &material.authority);
    file("client.crt", &material.client.certificate);
    file("client.key", &material.client.key);
    file("v1.crt", &material.v1);
    file("empty", "");
    file("token", "of-file\n");
    let plugin = file("plugin", &fill(&script(case.prints())));
    executable(&plugin);
    let mut paths = vec![file("kubeconfig", &fill(&case.kubeconfig()))];
    let mut command = Command::new(program);
    command
        .args(["version", "--request-timeout=5s"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder.path().join("home"));
    for edit in &case.0 {
        let other = |name: &str, text: &str| match text {
            "missing" => folder.path().join("missing"),
            "EMPTY" => file(name, ""),
            text => file(name, text),
        };
        match edit {
            Edit::Env(name, value) => {
                command.env(name, fill(value));
            }
            Edit::Flag(flag) => {
                command.arg(flag);
            }
            Edit::Server(server) => {
                let flag = if program == programs.kubectl {
                    "--server"
                } else {
                    "--api-addr"
                };
                command.arg(format!("{flag}={}", fill(server)));
            }
            Edit::FirstFile(text) => paths.insert(0, other("first", text)),
            Edit::LastFile(text) => paths.push(other("last", text)),
            _ => {}
        }
    }
    command
        .env("KUBECONFIG", std::env::join_paths(paths).unwrap())
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(30), command.output()).await;
    let said = match output {
        Err(_) => "does not end".to_owned(),
        Ok(output) => {
            let output = output.unwrap();
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            let text = text.replace(&folder.path().display().to_string(), "DIR");
            format!("{}: {}", output.status, text.trim())
        }
    };
    let runs = std::fs::read_to_string(folder.path().join("runs")).unwrap_or_default();
    Outcome {
        arrived: servers.end().await,
        runs: runs.lines().count().min(2),
        said,
    }
}

#[cfg(unix)]
fn executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A template with what its names stand for.
fn filled(programs: &Programs, servers: &Servers, folder: &Path, text: &str) -> String {
    let mut text = text.to_owned();
    // Longer names first, because some begin others.
    let mut ports = servers.ports.clone();
    ports.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    for (name, port) in ports {
        text = text.replace(&format!(":{name}"), &format!(":{port}"));
    }
    let encoded = |pem: &str| BASE64_STANDARD.encode(pem);
    let (own, other) = (&programs.material, &programs.other);
    let wrapped: Vec<String> = encoded(&own.authority)
        .as_bytes()
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    let garbage = pem("CERTIFICATE", b"garbage");
    let header = "-----BEGIN CERTIFICATE-----\nProc-Type: x\n\n";
    let (client, rsa, ed25519) = (&own.client, &own.rsa, &own.ed25519);
    let data = [
        ("OTHER_CA", other.authority.clone()),
        ("OTHER_KEY", other.client.key.clone()),
        (
            "COMMENTED_CA",
            format!("Certificate:\n    Data: x\n{}", own.authority),
        ),
        ("CRLF_CA", own.authority.replace('\n', "\r\n")),
        ("BROKEN_BUNDLE", format!("{garbage}{}", own.authority)),
        ("KEY_BUNDLE", format!("{}{}", client.key, own.authority)),
        (
            "HEADER_CA",
            own.authority
                .replace("-----BEGIN CERTIFICATE-----\n", header),
        ),
        ("GARBAGE_CA", garbage),
        ("LEAF", own.server.certificate.clone()),
        ("BUNDLE", format!("{}{}", other.authority, own.authority)),
        ("CA", own.authority.clone()),
        ("RSA_V1_CERT", own.rsa_v1.clone()),
        ("V1_CERT", own.v1.clone()),
        ("RSA_CERT", rsa.certificate.clone()),
        ("RSA_KEY", rsa.key.clone()),
        ("PKCS1_KEY", older(&rsa.key, "RSA PRIVATE KEY")),
        ("SEC1_KEY", older(&client.key, "EC PRIVATE KEY")),
        ("ED_CERT", ed25519.certificate.clone()),
        ("ED_KEY", ed25519.key.clone()),
        ("CRLF_KEY", client.key.replace('\n', "\r\n")),
        ("CHAIN", format!("{}{}", client.certificate, own.authority)),
        (
            "CERT_AND_KEY",
            format!("{}{}", client.certificate, client.key),
        ),
        ("CERT", client.certificate.clone()),
        ("KEY", client.key.clone()),
    ];
    text = text.replace(
        "data: WRAPPED_CA",
        &format!("data: \"{}\"", wrapped.join("\\n")),
    );
    for (name, pem) in data {
        // Each is a whole value.
        for end in [",", "}"] {
            let whole = format!("data: {name}{end}");
            text = text.replace(&whole, &format!("data: {}{end}", encoded(&pem)));
        }
    }
    for (name, value) in [
        ("PEM_CERT", client.certificate.replace('\n', "\\n")),
        ("PEM_KEY", client.key.replace('\n', "\\n")),
        ("PEM_OTHER", other.client.key.replace('\n', "\\n")),
        ("DIR", folder.display().to_string()),
    ] {
        text = text.replace(name, &value);
    }
    text
}

/// The plugin: a shell script.
fn script(what: &str) -> String {
    let version = "client.authentication.k8s.io/v1";
    let credential = |version: &str, status: &str| {
        format!(
            "cat <<'END'\n{{\"apiVersion\":\"{version}\",\"kind\":\"ExecCredential\",\"status\":{{{status}}}}}\nEND"
        )
    };
    let print = |text: &str| format!("cat <<'END'\n{text}\nEND");
    let token = r#""token":"of-plugin""#;
    let certificate = r#""clientCertificateData":"PEM_CERT","clientKeyData":"PEM_KEY""#;
    let does = match what {
        "V1BETA1" => credential("client.authentication.k8s.io/v1beta1", token),
        "INFO" => "printf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"%s\"}}' \
                   \"$(printf '%s' \"$KUBERNETES_EXEC_INFO\" | sed 's/:[0-9][0-9]*\\([/\"]\\)/:PORT\\1/g' | tr '{},' '\\n\\n\\n' | sort | tr -dc 'a-zA-Z0-9:.' )\""
            .to_owned(),
        "ENV" => "printf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"%s\"}}' \"$KEY\""
            .to_owned(),
        "NOTHING" => "true".to_owned(),
        "GARBAGE" => print("garbage"),
        "FAIL" => "exit 3".to_owned(),
        "NO_STATUS" => print(&format!(r#"{{"apiVersion":"{version}","kind":"ExecCredential"}}"#)),
        "EMPTY_STATUS" => credential(version, ""),
        "EMPTY_TOKEN" => credential(version, r#""token":"""#),
        "NO_VERSION" => print(&format!(r#"{{"kind":"ExecCredential","status":{{{token}}}}}"#)),
        "NO_KIND" => print(&format!(r#"{{"apiVersion":"{version}","status":{{{token}}}}}"#)),
        "OTHER_KIND" => print(&format!(r#"{{"apiVersion":"{version}","kind":"Other","status":{{{token}}}}}"#)),
        "EXPIRED" => credential(version, &format!(r#"{token},"expirationTimestamp":"2001-01-01T00:00:00Z""#)),
        "LATER" => credential(version, &format!(r#"{token},"expirationTimestamp":"2999-01-01T00:00:00Z""#)),
        "BAD_EXPIRY" => credential(version, &format!(r#"{token},"expirationTimestamp":"soon""#)),
        "CERTIFICATE" => credential(version, certificate),
        "BOTH" => credential(version, &format!("{token},{certificate}")),
        "CERTIFICATE_ALONE" => credential(version, r#""clientCertificateData":"PEM_CERT""#),
        "BAD_CERTIFICATE" => credential(version, r#""clientCertificateData":"x","clientKeyData":"y""#),
        "YAML" => print(&format!("apiVersion: {version}\nkind: ExecCredential\nstatus: {{token: of-plugin}}")),
        "TRAILING" => print(&format!(
            r#"{{"apiVersion":"{version}","kind":"ExecCredential","status":{{{token}}}}} x"#
        )),
        "TWICE" => print(&format!(
            r#"{{"apiVersion":"{version}","kind":"ExecCredential","status":{{"token":"first",{token}}}}}"#
        )),
        "LINE_BREAK" => credential(version, r#""token":"a\nb""#),
        "OTHER_CERTIFICATE" => credential(
            version,
            r#""clientCertificateData":"PEM_CERT","clientKeyData":"PEM_OTHER""#,
        ),
        "KEY_ALONE" => credential(version, r#""clientKeyData":"PEM_KEY""#),
        "UNKNOWN_FIELD" => credential(version, &format!(r#"{token},"unknown":{{"a":1}}"#)),
        _ => credential(version, token),
    };
    format!("#!/bin/sh\necho >> DIR/runs\n{does}\n")
}
