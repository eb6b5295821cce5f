//! Faults of the Link's credentials.

use std::fs;

use anyhow::{Context as _, anyhow};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD as STANDARD, BASE64_URL_SAFE_NO_PAD as URL_SAFE},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use serde_json::{Value, json};

use super::{
    Fault, broken,
    scene::{LATE_EAST, Scene, now},
};
use crate::rig::{Root, cluster::EXTENSION};

const SECRET: &str = "cluster-credentials-east";
/// The account of the Link in the target cluster.
const ACCOUNT: &str = "linkerd-service-mirror-remote-access-default";

pub(super) fn faults() -> Vec<Fault> {
    let late = (LATE_EAST, 80);
    vec![
        broken(
            "wrong certificate authority",
            late,
            ("objects", "CertificateInvalid"),
            |s| Box::pin(wrong_authority(s)),
        )
        .mended_by(|s| Box::pin(link_is_connected(s))),
        broken(
            "Link's credentials expired",
            late,
            ("objects", "CredentialsExpired"),
            |s| Box::pin(expired(s)),
        )
        .mended_by(|s| Box::pin(link_is_connected(s))),
        broken(
            "Link's credentials revoked",
            late,
            ("objects", "CredentialsRefused"),
            |s| Box::pin(revoked(s)),
        )
        .mended_by(|s| Box::pin(link_is_connected(s))),
        broken(
            "Link's Secret missing",
            late,
            ("objects", "CredentialsUnusable"),
            |s| Box::pin(missing(s)),
        )
        .mended_by(|s| Box::pin(link_is_connected(s))),
    ]
}

async fn link_is_connected(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.link_is("Connected", "True").await
}

/// The kubeconfig of the Link.
async fn kubeconfig(scene: &Scene<'_>) -> anyhow::Result<String> {
    let secrets: Api<Secret> = Api::namespaced(scene.rig.west.plane.client(), EXTENSION);
    let data = secrets.get(SECRET).await?.data.unwrap_or_default();
    let kubeconfig = data.get("kubeconfig").context("no kubeconfig")?;
    Ok(String::from_utf8(kubeconfig.0.clone())?)
}

/// Changes the kubeconfig of the Link, and restarts the controller, which otherwise keeps using the former one.
async fn edit_credentials(
    scene: &mut Scene<'_>,
    edit: impl FnOnce(&str) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let kubeconfig = edit(&kubeconfig(scene).await?)?;
    let secrets: Api<Secret> = Api::namespaced(scene.rig.west.plane.client(), EXTENSION);
    let change = Patch::Merge(json!({ "stringData": { "kubeconfig": kubeconfig } }));
    secrets
        .patch(SECRET, &PatchParams::default(), &change)
        .await?;
    scene.rig.source.controller.restart().await?;
    scene.export_late().await?;
    scene.link_is("Connected", "False").await
}

/// The value of a field of a kubeconfig.
fn value<'t>(kubeconfig: &'t str, field: &str) -> anyhow::Result<&'t str> {
    let line = kubeconfig
        .lines()
        .find_map(|line| line.trim().strip_prefix(field));
    let value = line.with_context(|| format!("the kubeconfig has no {field}"))?;
    Ok(value.trim_start_matches(':').trim().trim_matches('"'))
}

async fn wrong_authority(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let other = STANDARD.encode(Root::new()?.certificate());
    edit_credentials(scene, |kubeconfig| {
        let authority = value(kubeconfig, "certificate-authority-data")?;
        Ok(kubeconfig.replace(authority, &other))
    })
    .await
}

async fn expired(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let create = ["create", "token", ACCOUNT, "-n", EXTENSION];
    let token = scene.east(&create).await?;
    let key = scene.rig.east.plane.folder().join("service-account.key");
    let old = outdated(token.trim(), &fs::read_to_string(key)?)?;
    edit_credentials(scene, |kubeconfig| {
        let token = value(kubeconfig, "token")?;
        Ok(kubeconfig.replace(token, &old))
    })
    .await
}

/// A token as the API server signs them, which expired a minute ago.
fn outdated(token: &str, key: &str) -> anyhow::Result<String> {
    let mut parts = token.split('.');
    let (Some(header), Some(claims)) = (parts.next(), parts.next()) else {
        return Err(anyhow!("{token} is no token"));
    };
    let mut claims: Value = serde_json::from_slice(&URL_SAFE.decode(claims)?)?;
    let now = now().as_second();
    for (claim, time) in [("iat", now - 3600), ("nbf", now - 3600), ("exp", now - 60)] {
        claims[claim] = json!(time);
    }
    let signed = format!("{header}.{}", URL_SAFE.encode(claims.to_string()));
    let key: String = key.lines().filter(|line| !line.starts_with('-')).collect();
    let random = SystemRandom::new();
    let signing = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let key = EcdsaKeyPair::from_pkcs8(signing, &STANDARD.decode(key)?, &random);
    let key = key.map_err(|error| anyhow!("the key of the API server: {error}"))?;
    let signature = key.sign(&random, signed.as_bytes());
    let signature = signature.map_err(|_| anyhow!("failed to sign a token"))?;
    Ok(format!("{signed}.{}", URL_SAFE.encode(signature)))
}

/// The Secret of the token is deleted in the target cluster.
async fn revoked(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let kubeconfig = kubeconfig(scene).await?;
    let claims = value(&kubeconfig, "token")?.split('.').nth(1);
    let claims = URL_SAFE.decode(claims.context("the token has no claims")?)?;
    let claims: Value = serde_json::from_slice(&claims)?;
    let secret = claims["kubernetes.io/serviceaccount/secret.name"].as_str();
    let secret = secret.with_context(|| format!("the token is of no Secret: {claims}"))?;
    scene
        .east(&["-n", EXTENSION, "delete", "secret", secret])
        .await?;
    scene.link_is("Connected", "False").await?;
    // Watches that are open go on, so that mirrors are still written.
    scene.rig.source.controller.restart().await?;
    scene.export_late().await?;
    scene.link_is("Connected", "False").await
}

/// The Secret is deleted in the source cluster. The controller uses what it knows until it is restarted.
async fn missing(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene
        .west(&["-n", EXTENSION, "delete", "secret", SECRET])
        .await?;
    scene.rig.source.controller.restart().await?;
    scene.export_late().await?;
    scene.link_is("CredentialsValid", "False").await
}
