//! A Service in an argument, as kubectl would have it with a namespace in front.

use super::args::{namespace, object_name};

/// A Service, as people name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceName {
    /// Its namespace, if it is named.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Parses `[NAMESPACE/]SERVICE`.
pub fn service_name(text: &str) -> Result<ServiceName, String> {
    let (namespace, name) = match text.split_once('/') {
        Some((of, name)) => (Some(namespace(of)?), name),
        None => (None, text),
    };
    let name = object_name(name)?;
    Ok(ServiceName { namespace, name })
}
