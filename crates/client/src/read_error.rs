//! Why something could not be read from a cluster: a kind, by which callers decide, and one line, which they show.

use std::{error::Error, fmt, io, time::Duration};

use kube::client::AuthError;
use mirror_core::api::text::in_brief;

use super::{bounds, kubeconfig::unauthenticated};

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ReadError {
    /// What decisions look at.
    pub kind: ReadErrorKind,
    text: String,
}

/// What kept somebody from reading something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadErrorKind {
    /// The API server does not accept the credentials.
    Unauthorized,
    /// The user lacks a permission.
    Forbidden,
    /// There is no such object, or the API server does not know its kind.
    NotFound,
    /// The object has changed meanwhile, or exists already.
    Conflict,
    /// The API server returned another error.
    Rejected,
    /// The certificate of the API server could not be verified.
    Certificate,
    /// There was no response, or it could not be read.
    Unreachable,
    /// The multicluster extension is not installed.
    NotInstalled,
    /// The CRD of Links has only versions that this program does not read.
    OldLinks,
    /// What was read makes no sense, or nothing was asked.
    Other,
}

impl ReadErrorKind {
    /// The kind of a response with this HTTP status.
    pub fn of_status(code: u16) -> Self {
        match code {
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            409 => Self::Conflict,
            _ => Self::Rejected,
        }
    }
}

impl ReadError {
    /// An error of this kind, and what to show.
    pub fn new(kind: ReadErrorKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    /// There was no response within this time.
    pub fn late(deadline: Duration) -> Self {
        let text = format!("timed out after {} s", deadline.as_secs_f32());
        Self::new(ReadErrorKind::Unreachable, text)
    }

    /// The same error, with what failed in front of it.
    pub fn context(self, what: impl fmt::Display) -> Self {
        Self::new(self.kind, format!("{what}: {}", self.text))
    }

    /// What to show.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The error of a request.
impl From<kube::Error> for ReadError {
    fn from(error: kube::Error) -> Self {
        let kind = match &error {
            kube::Error::Api(status) => ReadErrorKind::of_status(status.code),
            error if is_certificate(error) => ReadErrorKind::Certificate,
            _ => ReadErrorKind::Unreachable,
        };
        Self::new(kind, explain(&error))
    }
}

/// An error of a command, in one line. It keeps its kind if it is that of a request.
impl From<anyhow::Error> for ReadError {
    fn from(error: anyhow::Error) -> Self {
        let found = error.chain().find_map(|step| step.downcast_ref::<Self>());
        let kind = found.map_or(ReadErrorKind::Other, |found| found.kind);
        Self::new(kind, format!("{error:#}"))
    }
}

/// An error that nobody decides by.
impl From<String> for ReadError {
    fn from(text: String) -> Self {
        Self::new(ReadErrorKind::Other, text)
    }
}

/// The same.
impl From<&str> for ReadError {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// The reason of a failed request in one short line: the API server's message, or the innermost cause. Errors of the
/// client contain addresses, never credentials, nor what a plugin of the kubeconfig printed.
pub fn explain(error: &kube::Error) -> String {
    // Nothing of it could be read: it is no JSON at all.
    let is_no_json = |error: &serde_json::Error| error.line() <= 1 && error.column() <= 1;
    if let kube::Error::SerdeError(error) = error
        && is_no_json(error)
    {
        return "the answer is not what an API server sends; is the address that of one?"
            .to_owned();
    }
    if let kube::Error::Api(status) = error {
        if status.message.trim_start().starts_with('<') {
            let code = status.code;
            return format!(
                "answered HTTP {code} with HTML; is the address that of an API server?"
            );
        }
        return match in_brief(&status.message) {
            message if message.is_empty() => {
                format!("HTTP status {} {}", status.code, in_brief(&status.reason))
            }
            message => message,
        };
    }
    if let Some(error) = causes(error).find_map(<dyn Error>::downcast_ref::<AuthError>) {
        return unauthenticated(error, None);
    }
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let is_late = cause
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut);
    let line = in_brief(&cause.to_string());
    match line.split_once(" (os error") {
        // The message of the timeouts of the client's connector.
        _ if is_late || line == "deadline has elapsed" => "timed out".to_owned(),
        Some((line, _)) => line.to_lowercase(),
        None => line,
    }
}

/// Whether a failed request got a response.
pub fn has_answered(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(_) | kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => true,
        error => causes(error).any(<dyn Error>::is::<bounds::BrokenResponse>),
    }
}

/// Whether a response exceeded a limit. A request for fewer objects may succeed.
pub fn exceeded_limit(error: &kube::Error) -> bool {
    causes(error).any(<dyn Error>::is::<bounds::OverLimit>)
}

/// Whether the server's certificate could not be verified.
pub fn is_certificate(error: &kube::Error) -> bool {
    causes(error).any(is_invalid_certificate)
}

fn is_invalid_certificate(cause: &(dyn Error + 'static)) -> bool {
    if let Some(error) = cause.downcast_ref::<rustls::Error>() {
        return matches!(error, rustls::Error::InvalidCertificate(_));
    }
    // The source of such an error is that of what it wraps.
    let wrapped = cause
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    wrapped.is_some_and(|wrapped| is_invalid_certificate(wrapped))
}

fn causes<'a>(error: &'a kube::Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'a (dyn Error + 'static)| {
        (*cause).source()
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_are_explained_in_one_line() {
        let api = |message: &str, reason: &str| {
            let status = json!({ "message": message, "reason": reason, "code": 403 });
            kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
        };
        let service = |error: io::Error| kube::Error::Service(error.into());
        for (error, expected) in [
            (api("no\n\u{1b}[2J way", "Forbidden"), "no [2J way"),
            (api("", "For\rbidden"), "HTTP status 403 For bidden"),
            (
                service(io::Error::from_raw_os_error(111)),
                "connection refused",
            ),
            (service(io::Error::from_raw_os_error(110)), "timed out"),
            (service(io::ErrorKind::TimedOut.into()), "timed out"),
            (
                service(io::Error::other("deadline has elapsed")),
                "timed out",
            ),
            (
                service(io::Error::other("invalid peer\ncertificate")),
                "invalid peer certificate",
            ),
        ] {
            assert_eq!(explain(&error), expected, "{error:?}");
        }
    }

    #[test]
    fn errors_of_requests_have_the_kind_of_their_cause() {
        use ReadErrorKind::{
            Certificate, Conflict, Forbidden, NotFound, Rejected, Unauthorized, Unreachable,
        };
        // The reason in a `Status` does not count, nor does its message.
        let status = |code: u16| {
            let status = Status::failure("forbidden: Unauthorized certificate", "NotFound");
            kube::Error::Api(Box::new(status.with_code(code)))
        };
        let service = |error: io::Error| kube::Error::Service(error.into());
        let certificate = rustls::CertificateError::UnknownIssuer;
        for (error, expected) in [
            (status(401), Unauthorized),
            (status(403), Forbidden),
            (status(404), NotFound),
            (status(409), Conflict),
            (status(410), Rejected),
            (status(422), Rejected),
            (status(429), Rejected),
            (status(500), Rejected),
            (status(503), Rejected),
            (service(io::Error::from_raw_os_error(111)), Unreachable),
            (service(io::ErrorKind::TimedOut.into()), Unreachable),
            (service(io::Error::other("a certificate?")), Unreachable),
            (
                service(io::Error::other(rustls::Error::from(certificate))),
                Certificate,
            ),
            (kube::Error::LinesCodecMaxLineLengthExceeded, Unreachable),
        ] {
            let told = explain(&error);
            let found = ReadError::from(error);
            assert_eq!((found.kind, found.text()), (expected, told.as_str()));
            let found = found.context("cannot read");
            assert_eq!(found.kind, expected);
            assert_eq!(found.to_string(), format!("cannot read: {told}"));
        }
        assert_eq!(ReadError::late(Duration::from_secs(1)).kind, Unreachable);
        assert_eq!(ReadError::from("broken").kind, ReadErrorKind::Other);
    }
}
