//! What a thief could do with a stolen token: requests that a thief would send, and how the API server answers them. It
//! is asked as the ServiceAccount of the token. Writes are dry runs, and of what is read only metadata is asked for, so
//! nothing changes, and no secret is sent. RBAC and admission answer a dry run as they answer the real request.

mod attempts;
mod thief;

use http::{Method, Request};
use kube::Client;
use serde::Serialize;
use serde_json::Value;

pub use self::{
    attempts::{Attempt, Expected},
    thief::{Thief, ThiefKind, thieves},
};

/// How the API server answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "answer", content = "by")]
pub enum AttackAnswer {
    /// It would have done it.
    Permitted,
    /// It has nothing of what the thief is looking for.
    NothingThere,
    /// The rights of the account do not contain it.
    RefusedByRights,
    /// An admission policy, or another kind of admission, refused it.
    RefusedByAdmission(String),
    /// It gave another answer, so nothing is known.
    Unknown(String),
}

/// An attempt, and how it ended; its JSON is documented output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    /// What a thief would do.
    pub attempt: &'static str,
    /// What the API server said.
    #[serde(flatten)]
    pub answer: AttackAnswer,
    /// Why this is not refused, if that is meant to be so.
    pub permitted_because: Option<&'static str>,
    /// What makes the API server refuse it.
    pub remedy: Option<&'static str>,
}

impl Tried {
    /// Whether it was permitted and should not be.
    pub fn is_open(&self) -> bool {
        self.answer == AttackAnswer::Permitted && self.permitted_because.is_none()
    }
}

/// Tries what a thief of this token would. `client` sends requests as the account.
pub async fn attack(client: &Client, thief: &Thief) -> Vec<Tried> {
    let mut tried = Vec::new();
    for attempt in attempts::of(thief) {
        let answer = send(client, &attempt).await;
        let (permitted_because, remedy) = match attempt.expected {
            Expected::Refused => (None, None),
            Expected::RefusedOrNothing(remedy) => (None, Some(remedy)),
            Expected::Permitted(why) => (Some(why), None),
        };
        tried.push(Tried {
            attempt: attempt.what,
            answer,
            permitted_because,
            remedy,
        });
    }
    tried
}

async fn send(client: &Client, attempt: &Attempt) -> AttackAnswer {
    let content = match &attempt.body {
        // Options in the body of a deletion would override those of the address.
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    let content_type = match attempt.method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(&attempt.method)
        .uri(format!("{}?{}", attempt.path, attempt.query))
        .header("content-type", content_type)
        .header("accept", attempt.accept)
        .body(content);
    match request {
        Ok(request) => answer(client.request(request).await, attempt.expected),
        Err(error) => AttackAnswer::Unknown(error.to_string()),
    }
}

/// What a response says. A missing object has been looked for, so the request for it was permitted.
fn answer(result: kube::Result<Value>, expected: Expected) -> AttackAnswer {
    let may_find_nothing = matches!(expected, Expected::RefusedOrNothing(_));
    let status = match result {
        Ok(found) if may_find_nothing && is_empty(&found) => return AttackAnswer::NothingThere,
        Ok(_) => return AttackAnswer::Permitted,
        Err(kube::Error::Api(status)) => status,
        Err(error) => return AttackAnswer::Unknown(error.to_string()),
    };
    let names_object = status.details.as_ref();
    let names_object = names_object.is_some_and(|details| !details.name.is_empty());
    match status.code {
        404 if names_object => AttackAnswer::Permitted,
        404 => AttackAnswer::Unknown("the cluster does not have this kind of object".to_owned()),
        403 | 422 => match policy(&status.message) {
            Some(policy) => AttackAnswer::RefusedByAdmission(policy.to_owned()),
            None if status.code == 403 => AttackAnswer::RefusedByRights,
            None => AttackAnswer::Unknown(status.message.clone()),
        },
        _ => AttackAnswer::Unknown(status.message.clone()),
    }
}

/// Whether a list has no items. A list of metadata has `null` then.
fn is_empty(list: &Value) -> bool {
    list["items"].as_array().is_none_or(Vec::is_empty)
}

/// The policy that a message of a refusal names.
fn policy(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("ValidatingAdmissionPolicy '")?;
    rest.split_once('\'').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use kube::core::{Status, response::StatusDetails};
    use serde_json::json;

    use super::*;

    fn refused(code: u16, message: &str) -> kube::Result<Value> {
        let status = Status::failure(message, "Forbidden").with_code(code);
        Err(kube::Error::Api(status.boxed()))
    }

    fn missing() -> kube::Result<Value> {
        let details = json!({ "name": "x", "kind": "pods" });
        let details: StatusDetails = serde_json::from_value(details).unwrap();
        let status = Status::failure("pods \"x\" not found", "NotFound").with_code(404);
        Err(kube::Error::Api(status.with_details(details).boxed()))
    }

    #[test]
    fn answers_tell_rights_from_policies_and_from_what_is_not_known() {
        let by_policy = "services \"x\" is forbidden: ValidatingAdmissionPolicy 'mc-services' with binding 'b' denied \
                         request: no mirror";
        for (result, expected) in [
            (Ok(json!({ "items": [] })), AttackAnswer::Permitted),
            (missing(), AttackAnswer::Permitted),
            (
                refused(404, "404 page not found"),
                AttackAnswer::Unknown("the cluster does not have this kind of object".into()),
            ),
            (
                refused(403, "pods is forbidden: User \"x\" cannot list"),
                AttackAnswer::RefusedByRights,
            ),
            (
                refused(403, by_policy),
                AttackAnswer::RefusedByAdmission("mc-services".into()),
            ),
            (
                refused(422, by_policy),
                AttackAnswer::RefusedByAdmission("mc-services".into()),
            ),
            (
                refused(422, "spec: invalid"),
                AttackAnswer::Unknown("spec: invalid".into()),
            ),
            (refused(500, "etcd"), AttackAnswer::Unknown("etcd".into())),
        ] {
            assert_eq!(answer(result, Expected::Refused), expected);
        }
        for (items, expected) in [
            (json!([]), AttackAnswer::NothingThere),
            (Value::Null, AttackAnswer::NothingThere),
            (json!([{}]), AttackAnswer::Permitted),
        ] {
            let found = Ok(json!({ "items": items }));
            let of = Expected::RefusedOrNothing("revoke them");
            assert_eq!(answer(found, of), expected);
        }
    }

    #[test]
    fn only_what_is_permitted_without_a_reason_is_open() {
        let tried = |answer, permitted_because| Tried {
            attempt: "x",
            answer,
            permitted_because,
            remedy: None,
        };
        for (tried, is_open) in [
            (tried(AttackAnswer::Permitted, None), true),
            (tried(AttackAnswer::Permitted, Some("it has to")), false),
            (tried(AttackAnswer::RefusedByRights, None), false),
            (tried(AttackAnswer::Unknown(String::new()), None), false),
        ] {
            assert_eq!(tried.is_open(), is_open, "{tried:?}");
        }
    }
}
