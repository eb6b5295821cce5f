//! A page of a list. A server cannot make it take many times as much memory as it has bytes.

use std::{fmt, marker::PhantomData};

use kube::{
    Api, Resource,
    api::{ListMeta, ListParams},
    core::Request,
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, SeqAccess, Visitor},
};
use tokio::task::spawn_blocking;

/// Maximum number of objects in a page, whose size is limited to 8 MiB. An object of Kubernetes has about 1 KiB, but an
/// empty one has 15 bytes, and takes 40 times as much memory. This is more than a page is requested to have, because
/// Kubernetes allows a server to ignore that number.
const MAX_OBJECTS: usize = 8 << 10;

/// Maximum number of bytes that are decoded between the work for other clusters, which takes about a millisecond. A full
/// page takes tens of milliseconds, so it is decoded on a thread of its own.
const AT_ONCE: usize = 128 << 10;

/// A page of a list.
#[derive(Deserialize)]
#[serde(bound = "K: DeserializeOwned")]
pub struct Page<K> {
    /// The resource version of the list, and the token for its next page.
    #[serde(default)]
    pub metadata: ListMeta,
    /// The objects; `null` on the wire means none.
    #[serde(deserialize_with = "objects")]
    pub items: Vec<K>,
}

impl<K: Resource + Clone + DeserializeOwned + Send + 'static> Page<K> {
    /// Requests a page. As [`Api::list`], which would decode any number of objects, and log what it cannot decode.
    pub async fn request(api: &Api<K>, parameters: &ListParams) -> kube::Result<Self> {
        let request = Request::new(api.resource_url());
        let request = if K::metadata_api() {
            request.list_metadata(parameters)
        } else {
            request.list(parameters)
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        let text = api.clone().into_client().request_text(request).await?;
        decode(text).await
    }
}

/// Decodes an answer, on a thread of its own if it is large.
async fn decode<T: DeserializeOwned + Send + 'static>(text: String) -> kube::Result<T> {
    let decoded = if text.len() <= AT_ONCE {
        serde_json::from_str(&text)
    } else {
        let decoding = spawn_blocking(move || serde_json::from_str(&text));
        decoding
            .await
            .map_err(|stopped| kube::Error::Service(stopped.into()))?
    };
    decoded.map_err(kube::Error::SerdeError)
}

fn objects<'de, K, D>(deserializer: D) -> Result<Vec<K>, D::Error>
where
    K: DeserializeOwned,
    D: Deserializer<'de>,
{
    let objects = Option::<Objects<K>>::deserialize(deserializer)?;
    Ok(objects.map_or_else(Vec::new, |Objects(objects)| objects))
}

/// At most [`MAX_OBJECTS`] objects.
struct Objects<K>(Vec<K>);

impl<'de, K: DeserializeOwned> Deserialize<'de> for Objects<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counted<K>(PhantomData<K>);

        impl<'de, K: DeserializeOwned> Visitor<'de> for Counted<K> {
            type Value = Objects<K>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of objects")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Objects<K>, A::Error> {
                let mut objects = Vec::new();
                while let Some(object) = items.next_element()? {
                    if objects.len() == MAX_OBJECTS {
                        let message = format!("the page has more than {MAX_OBJECTS} objects");
                        return Err(A::Error::custom(message));
                    }
                    objects.push(object);
                }
                Ok(Objects(objects))
            }
        }

        deserializer.deserialize_seq(Counted(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use mirror_core::api::{k8s::Service, wire::Wire};

    use super::*;

    fn decoded(items: &str) -> serde_json::Result<Page<Wire<Service>>> {
        let page = r#"{ "kind": "ServiceList", "metadata": { "resourceVersion": "7" }, "items": "#;
        serde_json::from_str(&format!("{page}{items}}}"))
    }

    #[tokio::test]
    async fn large_page_is_decoded_while_other_work_goes_on() {
        let page = |count: usize| {
            let padding = "x".repeat(8 << 10);
            let object = format!(r#"{{"metadata":{{"annotations":{{"a":"{padding}"}}}}}}"#);
            format!(r#"{{"items":[{}]}}"#, vec![object; count].join(","))
        };
        let decode = decode::<Page<Wire<Service>>>;
        let small = decode(page(1)).now_or_never();
        assert_eq!(small.unwrap().unwrap().items.len(), 1);
        let mut large = Box::pin(decode(page(500)));
        assert!((&mut large).now_or_never().is_none(), "decoded at once");
        assert_eq!(large.await.unwrap().items.len(), 500);
    }

    #[test]
    fn page_of_very_many_tiny_objects_is_not_decoded() {
        let page = |count: usize| {
            decoded(&format!(
                "[{}]",
                vec![r#"{"metadata":{}}"#; count].join(",")
            ))
        };
        let largest = page(MAX_OBJECTS).unwrap();
        assert_eq!(largest.items.len(), MAX_OBJECTS);
        assert!(size_of_val(largest.items.as_slice()) < 8 << 20);
        let error = page(MAX_OBJECTS + 1).map(|page| page.items.len());
        let message = error.unwrap_err().to_string();
        assert!(
            message.starts_with("the page has more than 8192 objects"),
            "{message}"
        );
    }

    #[test]
    fn page_without_objects_has_an_empty_list_or_null() {
        for items in ["null", "[]"] {
            let page = decoded(items).unwrap();
            assert!(page.items.is_empty());
            assert_eq!(page.metadata.resource_version.as_deref(), Some("7"));
        }
        assert!(decoded("{}").is_err());
    }
}
