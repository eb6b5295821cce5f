//! The audit log of the API server: which requests came, from whom.

use anyhow::Context as _;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// An event of the audit log. A request has one, from when the API server had responded. A watch has two: from its start
/// and from its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEvent {
    /// The same for all events of one request.
    pub id: String,
    /// `ResponseComplete`, or `ResponseStarted` of a watch, or `Panic`.
    pub stage: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The path with its query.
    pub uri: String,
    /// Who: `kubernetes-admin`, or `system:serviceaccount:NAMESPACE:NAME`, for example.
    pub user: String,
    /// The `User-Agent` header; empty if there was none.
    pub user_agent: String,
    /// The API group; empty for the core group and for what is no resource.
    pub group: String,
    /// The resource in the plural; empty for what is none, such as `/version`.
    pub resource: String,
    /// `status`, for example; empty if there is none.
    pub subresource: String,
    /// Empty for what has no namespace.
    pub namespace: String,
    /// The name of the object; empty for lists, and for the creation of an object whose name the server makes up.
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u16,
    /// When the request came.
    pub received: Timestamp,
    /// When this stage was reached.
    pub noted: Timestamp,
}

impl AuditEvent {
    /// Whether the request could change something in the cluster, and was not refused or a dry run.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
            && (200..300).contains(&self.code)
            && !self.uri.contains("dryRun=")
            // Reviews, such as a SelfSubjectAccessReview, are created for their response. They are not stored.
            && !matches!(self.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io")
    }
}

/// The events in a log. A last line that is still being written is left out.
pub(crate) fn parse(log: &str) -> anyhow::Result<Vec<AuditEvent>> {
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    let event = |line| {
        serde_json::from_str::<Raw>(line).with_context(|| format!("strange audit event: {line}"))
    };
    whole
        .lines()
        .map(|line| event(line).map(AuditEvent::from))
        .collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl From<Raw> for AuditEvent {
    fn from(raw: Raw) -> Self {
        Self {
            id: raw.audit_id,
            stage: raw.stage,
            verb: raw.verb,
            uri: raw.request_uri,
            user: raw.user.username,
            user_agent: raw.user_agent,
            group: raw.object_ref.api_group,
            resource: raw.object_ref.resource,
            subresource: raw.object_ref.subresource,
            namespace: raw.object_ref.namespace,
            name: raw.object_ref.name,
            code: raw.response_status.code,
            received: raw.request_received_timestamp,
            noted: raw.stage_timestamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"4f5e","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/services/web?fieldManager=x","verb":"patch","user":{"username":"kubernetes-admin","groups":["system:masters"]},"sourceIPs":["127.0.0.1"],"userAgent":"curl/8","objectRef":{"resource":"services","namespace":"default","name":"web","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z","stageTimestamp":"2026-01-02T03:04:05.100006Z"}"#;

    #[test]
    fn reads_whole_lines_only() {
        let events = parse(&format!("{LINE}\n{}", &LINE[..40])).unwrap();
        let [event] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(
            (event.resource.as_str(), event.name.as_str(), event.code),
            ("services", "web", 200)
        );
        assert_eq!(
            (event.user.as_str(), event.user_agent.as_str()),
            ("kubernetes-admin", "curl/8")
        );
        assert!(event.is_write());
        assert_eq!(parse(LINE).unwrap(), []);
    }

    #[test]
    fn tells_writes_from_the_rest() {
        let event = || parse(&format!("{LINE}\n")).unwrap().remove(0);
        assert!(
            !AuditEvent {
                code: 409,
                ..event()
            }
            .is_write()
        );
        assert!(
            !AuditEvent {
                verb: "watch".into(),
                ..event()
            }
            .is_write()
        );
        assert!(
            !AuditEvent {
                uri: "/api/v1/x?dryRun=All".into(),
                ..event()
            }
            .is_write()
        );
        assert!(
            !AuditEvent {
                group: "authorization.k8s.io".into(),
                verb: "create".into(),
                ..event()
            }
            .is_write()
        );
    }
}
