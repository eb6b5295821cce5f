//! Runs the exec plugin of a kubeconfig: once for all clients of a command, within its deadline, and again before the
//! token that it printed expires.
//!
//! kube would run it three times for each client, without a deadline, and let it read stdin even if that is a file.

use std::{
    io::IsTerminal as _,
    process::{Output, Stdio},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hints::hint::fail;
use http::{HeaderValue, Request, header::AUTHORIZATION};
use jiff::{SignedDuration, Timestamp};
use kube::{
    Config,
    client::AuthError,
    config::{ExecConfig, ExecInteractiveMode},
};
use mirror_core::api::text::in_brief;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt as _, process::Command, sync::Mutex, time::timeout};

use super::{
    kubeconfig::{CHECK_USER, executable, unauthenticated},
    kubeconfig_text::of_yaml,
    shared::OnceMap,
};
use crate::timing;

/// The versions of `ExecCredential` that kubectl and this program know.
pub const EXEC_V1: &str = "client.authentication.k8s.io/v1";
pub const EXEC_V1BETA1: &str = "client.authentication.k8s.io/v1beta1";

/// How long before its expiry a token is replaced.
const AHEAD: SignedDuration = SignedDuration::from_secs(60);

/// Maximum size of what a plugin prints, in bytes.
const LARGEST: u64 = 1 << 20;

/// The exec plugin of a kubeconfig's user, and the token that it printed last.
#[derive(Debug)]
pub struct Plugin {
    exec: ExecConfig,
    token: Mutex<Token>,
}

/// A token of a plugin.
#[derive(Debug)]
struct Token {
    /// The header with it; `None` if the plugin only has certificates.
    header: Option<HeaderValue>,
    expires: Option<Timestamp>,
}

/// Why a request has no credentials. Quotes nothing of the plugin.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unauthenticated(String);

/// What a plugin prints.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    api_version: Option<String>,
    kind: Option<String>,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// The plugins of a command that have run.
pub type Plugins = OnceMap<Ran>;

/// A plugin that has run, and the certificate and key that it printed.
#[derive(Clone, Debug)]
pub struct Ran {
    plugin: Arc<Plugin>,
    certificate: Option<(String, String)>,
}

impl Plugin {
    /// Runs the plugin of a configuration, if it has one and if it has not run for another cluster, and puts a certificate
    /// that it printed into the configuration.
    ///
    /// If the plugin can ask a person, `deadline` does not apply, because a login may take any time.
    pub async fn of(
        config: &mut Config,
        deadline: Duration,
        plugins: &Plugins,
    ) -> anyhow::Result<Option<Arc<Self>>> {
        let user = &mut config.auth_info;
        let Some(exec) = user.exec.take() else {
            return Ok(None);
        };
        // As a `Value`, its keys are in order. It has the cluster too, if the plugin learns it.
        let key = json!({ "exec": exec, "cluster": exec.cluster }).to_string();
        let ran = plugins.get(key, first_run(exec, deadline));
        let Ran {
            plugin,
            certificate,
        } = ran.await?;
        if let Some((certificate, key)) = certificate {
            user.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
            user.client_key_data = Some(BASE64_STANDARD.encode(key).into());
        }
        Ok(Some(plugin))
    }

    /// Adds the token to a request. Runs the plugin again if the token is about to expire.
    pub async fn authorize<B>(&self, request: &mut Request<B>) -> Result<(), Unauthenticated> {
        let mut token = self.token.lock().await;
        if token.header.is_some() && token.expires.is_some_and(is_soon) {
            (*token, _) = run(&self.exec).await?;
        }
        if let Some(header) = &token.header {
            request.headers_mut().insert(AUTHORIZATION, header.clone());
        }
        Ok(())
    }
}

async fn first_run(exec: ExecConfig, deadline: Duration) -> anyhow::Result<Ran> {
    let asks = is_interactive(&exec);
    if exec.interactive_mode == Some(ExecInteractiveMode::Always) && !asks {
        let plugin = executable(name(&exec));
        return Err(fail(
            format!("{plugin} asks a person, and standard input is not a terminal"),
            "run the command in a terminal, or log in another way",
        ));
    }
    let ran = timeout(if asks { Duration::MAX } else { deadline }, run(&exec));
    let ran = ran.await.unwrap_or_else(|_| {
        let (plugin, limit) = (executable(name(&exec)), deadline.as_secs_f32());
        let why = format!("{plugin} did not finish within {limit} s");
        Err(Unauthenticated(why))
    });
    let install = exec.install_hint.as_deref().map(in_brief);
    let hint = install
        .as_deref()
        .filter(|hint| !hint.is_empty())
        .unwrap_or(CHECK_USER);
    let (token, status) = ran.map_err(|why| fail(why.to_string(), hint))?;
    let token = Mutex::new(token);
    Ok(Ran {
        plugin: Arc::new(Plugin { exec, token }),
        certificate: status.client_certificate_data.zip(status.client_key_data),
    })
}

/// Whether a token that expires then has to be replaced.
fn is_soon(expires: Timestamp) -> bool {
    expires <= timing::now() + AHEAD
}

/// Whether the plugin can ask a person.
fn is_interactive(exec: &ExecConfig) -> bool {
    exec.interactive_mode != Some(ExecInteractiveMode::Never) && std::io::stdin().is_terminal()
}

/// The plugin's command, unless it is a whole command line, which may hold a secret.
fn name(exec: &ExecConfig) -> Option<&str> {
    exec.command
        .as_deref()
        .filter(|command| !command.contains(' '))
}

/// Runs the plugin. It is killed if the future is dropped.
async fn run(exec: &ExecConfig) -> Result<(Token, Status), Unauthenticated> {
    let failed = |error| Unauthenticated(unauthenticated(&error, name(exec)));
    let mut command = command(exec).map_err(failed)?;
    let not_started = |error| failed(AuthError::AuthExecStart(error));
    let mut child = command.spawn().map_err(not_started)?;
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let read = stdout.take(LARGEST).read_to_end(&mut output).await;
        read.map_err(not_started)?;
    }
    let status = child.wait().await.map_err(not_started)?;
    if !status.success() {
        return Err(failed(AuthError::AuthExecRun {
            cmd: String::new(),
            out: Box::new(Output {
                status,
                stdout: Vec::new(),
                stderr: Vec::new(),
            }),
        }));
    }
    printed(&output, exec.api_version.as_deref()).map_err(failed)
}

fn command(exec: &ExecConfig) -> Result<Command, AuthError> {
    let program = exec.command.as_deref().unwrap_or_default();
    if program.is_empty() {
        return Err(AuthError::MissingCommand);
    }
    let interactive = is_interactive(exec);
    let mut spec = json!({ "interactive": interactive });
    if exec.provide_cluster_info {
        spec["cluster"] = json!(exec.cluster);
        // As kubectl, says so if there is no extension with a configuration of the plugin.
        if let Some(cluster) = spec["cluster"].as_object_mut() {
            cluster.entry("config").or_insert(Value::Null);
        }
    }
    let info = json!({ "kind": "ExecCredential", "apiVersion": exec.api_version, "spec": spec });
    let mut command = Command::new(program);
    command
        .args(exec.args.iter().flatten())
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .kill_on_drop(true)
        .stdout(Stdio::piped())
        .stdin(if interactive {
            Stdio::inherit()
        } else {
            Stdio::null()
        })
        .stderr(match exec.interactive_mode {
            Some(ExecInteractiveMode::Never) => Stdio::null(),
            _ => Stdio::inherit(),
        });
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    Ok(command)
}

/// The credentials that a plugin printed, in the version that it was asked for.
fn printed(output: &[u8], version: Option<&str>) -> Result<(Token, Status), AuthError> {
    let credential = std::str::from_utf8(output).map_err(|_| AuthError::ExecPluginFailed)?;
    let credential: ExecCredential = of_yaml(credential).map_err(AuthError::AuthExecParse)?;
    let is_other = |kind: &String| kind != "ExecCredential";
    if credential.kind.as_ref().is_some_and(is_other)
        || credential.api_version.as_deref() != version
    {
        return Err(AuthError::ExecPluginFailed);
    }
    let mut status = credential.status.ok_or(AuthError::ExecPluginFailed)?;
    for text in [
        &mut status.token,
        &mut status.client_certificate_data,
        &mut status.client_key_data,
    ] {
        *text = text.take().filter(|text| !text.is_empty());
    }
    if status.client_certificate_data.is_some() != status.client_key_data.is_some() {
        return Err(AuthError::ExecPluginFailed);
    }
    let expires = status.expiration_timestamp.as_deref().map(str::parse);
    let expires = expires
        .transpose()
        .map_err(|_| AuthError::ExecPluginFailed)?;
    let header = status.token.as_ref().map(|token| {
        let mut header = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(AuthError::InvalidBearerToken)?;
        header.set_sensitive(true);
        Ok::<_, AuthError>(header)
    });
    let header = header.transpose()?;
    if header.is_none() && status.client_certificate_data.is_none() {
        return Err(AuthError::ExecPluginFailed);
    }
    Ok((Token { header, expires }, status))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration whose user has a plugin that runs this script, and writes a line to a file each time.
    fn config(folder: &std::path::Path, script: &str) -> Config {
        let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
        let script = format!("echo >> {}/runs; {script}", folder.display());
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
            "command": "sh", "args": ["-c", script], "env": [{ "name": "KEY", "value": "x" }],
        });
        config.auth_info.exec = Some(serde_json::from_value(exec).unwrap());
        config
    }

    fn runs(folder: &std::path::Path) -> usize {
        let runs = std::fs::read_to_string(folder.join("runs"));
        runs.unwrap_or_default().lines().count()
    }

    fn status(fields: &Value) -> String {
        let credential =
            json!({ "apiVersion": EXEC_V1, "kind": "ExecCredential", "status": fields });
        format!("echo '{credential}'")
    }

    const DEADLINE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn plugin_runs_once_and_again_before_its_token_expires() {
        for (fields, at_end) in [
            (json!({ "token": "t" }), 1),
            (
                json!({ "token": "t", "expirationTimestamp": "2999-01-01T00:00:00Z" }),
                1,
            ),
            (
                json!({ "token": "t", "expirationTimestamp": "2001-01-01T00:00:00Z" }),
                3,
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let mut config = config(folder.path(), &status(&fields));
            let plugin = Plugin::of(&mut config, DEADLINE, &Plugins::default())
                .await
                .unwrap()
                .unwrap();
            assert!(config.auth_info.exec.is_none());
            assert_eq!(runs(folder.path()), 1);
            for _ in 0..2 {
                let mut request = Request::new(());
                plugin.authorize(&mut request).await.unwrap();
                assert_eq!(request.headers()[AUTHORIZATION], "Bearer t");
            }
            assert_eq!(runs(folder.path()), at_end, "{fields}");
        }
    }

    #[tokio::test]
    async fn plugin_learns_what_it_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let script = "test \"$KEY\" = x && test -z \"$(cat)\" && printf '%s' \"$KUBERNETES_EXEC_INFO\" > $0; ";
        let file = folder.path().join("info");
        let mut config = config(folder.path(), "");
        let exec = config.auth_info.exec.as_mut().unwrap();
        exec.args = Some(vec![
            "-c".to_owned(),
            format!("{script}{}", status(&json!({ "token": "t" }))),
            file.display().to_string(),
        ]);
        exec.provide_cluster_info = true;
        exec.cluster = Some(serde_json::from_value(json!({ "server": "https://east" })).unwrap());
        Plugin::of(&mut config, DEADLINE, &Plugins::default())
            .await
            .unwrap();
        let info: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let expected = json!({
            "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
            "spec": { "interactive": false, "cluster": { "server": "https://east", "config": null } },
        });
        assert_eq!(info, expected);
    }

    #[tokio::test]
    async fn certificate_of_a_plugin_becomes_that_of_the_client() {
        let folder = tempfile::tempdir().unwrap();
        let both = json!({ "clientCertificateData": "cert", "clientKeyData": "key" });
        let mut config = config(folder.path(), &status(&both));
        let plugin = Plugin::of(&mut config, DEADLINE, &Plugins::default())
            .await
            .unwrap()
            .unwrap();
        let certificate = config.auth_info.client_certificate_data.as_deref();
        assert_eq!(certificate, Some("Y2VydA=="));
        let mut request = Request::new(());
        plugin.authorize(&mut request).await.unwrap();
        assert!(request.headers().is_empty());
    }

    #[tokio::test]
    async fn plugin_that_prints_without_end_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path(), "exec yes");
        let error = Plugin::of(&mut config, DEADLINE, &Plugins::default())
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "executable sh was killed by a signal");
    }

    #[tokio::test]
    async fn plugin_is_killed_at_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path(), "exec sleep 60");
        let began = std::time::Instant::now();
        let error = Plugin::of(&mut config, Duration::from_millis(200), &Plugins::default()).await;
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "executable sh did not finish within 0.2 s");
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
