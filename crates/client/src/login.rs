//! How a user of a kubeconfig identifies itself: the header that each request gets.
//!
//! kube's own layer for this is not used: it sends the line break at the end of a `tokenFile`, prefers other credentials
//! than kubectl, and runs plugins and auth providers in its own way.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hints::hint::fail;
use http::{HeaderValue, Request, header::AUTHORIZATION};
use kube::{
    Config,
    config::{AuthInfo, AuthProviderConfig},
};
use mirror_core::api::duration::rfc3339;
use tokio::{sync::Mutex, time::Instant};

use super::{
    config::{expiry_of, secret_text},
    exec::{Plugin, Plugins, Unauthenticated},
    kubeconfig::CHECK_USER,
};
use crate::timing;

/// How long a token of a file is used before the file is read again.
const REREAD: Duration = Duration::from_secs(50);

/// What identifies a user, besides a client certificate.
#[derive(Clone)]
pub enum Login {
    /// Nothing.
    None,
    /// A token, or a user name and a password.
    Header(HeaderValue),
    /// A token in a file that may be renewed.
    File(Arc<TokenFile>),
    /// A token of an exec plugin.
    Plugin(Arc<Plugin>),
}

/// Hides tokens.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// A file with a token.
pub struct TokenFile {
    path: PathBuf,
    read: Mutex<(HeaderValue, Instant)>,
}

impl Login {
    /// How the user of a configuration logs in. Runs its exec plugin if it has no other credentials, and puts a certificate
    /// that the plugin printed into the configuration.
    pub async fn of(
        config: &mut Config,
        deadline: Duration,
        plugins: &Plugins,
    ) -> anyhow::Result<Self> {
        let fixed = Self::without_plugin(&config.auth_info)?;
        if !matches!(fixed, Self::None) || config.auth_info.client_certificate_data.is_some() {
            return Ok(fixed);
        }
        let plugin = Plugin::of(config, deadline, plugins).await?;
        Ok(plugin.map_or(Self::None, Self::Plugin))
    }

    /// The same for a user whose plugin, if there is one, does not count.
    pub fn without_plugin(user: &AuthInfo) -> anyhow::Result<Self> {
        let of_provider = user.auth_provider.as_ref().map(id_token).transpose()?;
        if let Some(name) = &user.username {
            let password = secret_text(user, "password").unwrap_or_default();
            let pair = BASE64_STANDARD.encode(format!("{name}:{password}"));
            return Ok(Self::Header(header(&format!("Basic {pair}"))?));
        }
        if let Some(path) = &user.token_file {
            match of_file(path) {
                Ok(token) => {
                    return Ok(Self::File(Arc::new(TokenFile {
                        path: path.into(),
                        read: Mutex::new((token, Instant::now())),
                    })));
                }
                Err(error) if user.token.is_none() => return Err(error),
                Err(_) => {}
            }
        }
        match secret_text(user, "token").or(of_provider) {
            Some(token) => Ok(Self::Header(header(&format!("Bearer {token}"))?)),
            None => Ok(Self::None),
        }
    }

    /// Adds what identifies the user to a request. Runs a plugin again if its token is about to expire.
    pub async fn authorize<B>(&self, request: &mut Request<B>) -> Result<(), Unauthenticated> {
        let value = match self {
            Self::None => return Ok(()),
            Self::Header(header) => header.clone(),
            Self::File(file) => file.token().await,
            Self::Plugin(plugin) => return plugin.authorize(request).await,
        };
        request.headers_mut().insert(AUTHORIZATION, value);
        Ok(())
    }
}

impl TokenFile {
    /// Its token; the last one if it cannot be read any more.
    async fn token(&self) -> HeaderValue {
        let mut read = self.read.lock().await;
        if read.1.elapsed() > REREAD {
            if let Ok(token) = of_file(&self.path.to_string_lossy()) {
                read.0 = token;
            }
            read.1 = Instant::now();
        }
        read.0.clone()
    }
}

/// The header for the token in a file.
fn of_file(path: &str) -> anyhow::Result<HeaderValue> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        fail(
            format!("tokenFile: cannot read the file: {error}"),
            CHECK_USER,
        )
    })?;
    let token = text.trim();
    if token.is_empty() {
        return Err(fail("tokenFile: the file is empty", CHECK_USER));
    }
    header(&format!("Bearer {token}"))
}

fn header(text: &str) -> anyhow::Result<HeaderValue> {
    let mut header = HeaderValue::try_from(text).map_err(|_| {
        fail(
            "invalid characters in the token",
            "check for a line break at its end",
        )
    })?;
    header.set_sensitive(true);
    Ok(header)
}

/// The token of an auth provider. kubectl has only that for OIDC left, and renews its token.
fn id_token(provider: &AuthProviderConfig) -> anyhow::Result<String> {
    let plugin = match provider.name.as_str() {
        "oidc" => "kubectl oidc-login (kubelogin)",
        "gcp" => "gke-gcloud-auth-plugin",
        "azure" => "kubelogin",
        _ => "that of your cloud or identity provider",
    };
    let hint = format!("use an exec plugin in place of the auth-provider: {plugin}");
    let found = provider.config.get("id-token");
    let Some(token) = found.filter(|token| provider.name == "oidc" && !token.is_empty()) else {
        return Err(fail("the auth-provider is not supported", hint));
    };
    match expiry_of(token) {
        Some(end) if end <= timing::now() => Err(fail(
            format!(
                "the id-token of the auth-provider expired at {}",
                rfc3339(end)
            ),
            format!("kubectl renews it, and this program does not; {hint}"),
        )),
        _ => Ok(token.clone()),
    }
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use hints::hint::hint_of;
    use serde_json::json;

    use super::*;

    /// What a request gets for a user with these fields.
    async fn sent(user: serde_json::Value) -> anyhow::Result<String> {
        let login = Login::without_plugin(&serde_json::from_value(user)?)?;
        let mut request = Request::new(());
        login.authorize(&mut request).await?;
        let header = request.headers().get(AUTHORIZATION);
        Ok(header
            .map_or("", |value| value.to_str().unwrap())
            .to_owned())
    }

    #[tokio::test]
    async fn token_of_a_file_comes_first_and_has_no_line_break() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "of-file\n").unwrap();
        let missing = folder.path().join("missing");
        for (user, expected) in [
            (json!({ "token": "t" }), "Bearer t"),
            (json!({ "tokenFile": file, "token": "t" }), "Bearer of-file"),
            (json!({ "tokenFile": missing, "token": "t" }), "Bearer t"),
            (
                json!({ "username": "me", "password": "pw" }),
                "Basic bWU6cHc=",
            ),
            (json!({}), ""),
        ] {
            assert_eq!(sent(user.clone()).await.unwrap(), expected, "{user}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn file_is_read_again_and_its_last_token_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "one").unwrap();
        let user = serde_json::from_value(json!({ "tokenFile": file })).unwrap();
        let Login::File(token) = Login::without_plugin(&user).unwrap() else {
            panic!("no file");
        };
        std::fs::write(&file, "two").unwrap();
        assert_eq!(token.token().await, "Bearer one");
        tokio::time::advance(REREAD * 2).await;
        assert_eq!(token.token().await, "Bearer two");
        std::fs::remove_file(&file).unwrap();
        tokio::time::advance(REREAD * 2).await;
        assert_eq!(token.token().await, "Bearer two");
    }

    #[tokio::test]
    async fn auth_provider_for_oidc_works_until_its_token_expires() {
        let jwt = |end: i64| {
            let claims = BASE64_URL_SAFE_NO_PAD.encode(json!({ "exp": end }).to_string());
            format!("h.{claims}.s")
        };
        let user = |name: &str, end: i64| json!({ "auth-provider": { "name": name, "config": { "id-token": jwt(end), "refresh-token": "r" } } });
        let valid = sent(user("oidc", 32_503_680_000)).await.unwrap();
        assert_eq!(valid, format!("Bearer {}", jwt(32_503_680_000)));
        for (user, expected, hint) in [
            (
                user("oidc", 1_700_000_000),
                "the id-token of the auth-provider expired at 2023-11-14T22:13:20Z",
                "kubelogin",
            ),
            (
                user("gcp", 32_503_680_000),
                "the auth-provider is not supported",
                "gke-gcloud-auth-plugin",
            ),
        ] {
            let error = sent(user).await.unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert!(hint_of(&error).unwrap().contains(hint), "{error:?}");
        }
    }
}
