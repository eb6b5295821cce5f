//! Certificates of a mesh, and how long they are valid: trust anchors, the issuer, and those of proxies. Pure.

use std::collections::BTreeMap;

use client::ReadError;
use jiff::{SignedDuration, Timestamp};
use mirror_core::api::metadata::ResourceId;

/// What is left of a certificate that should have been replaced, at most. `linkerd check` has the same limit.
const SOON: SignedDuration = SignedDuration::from_hours(60 * 24);
/// Part of its life after which a certificate should have been replaced. Proxies renew theirs after 70 %, and cert-manager
/// renews Linkerd's issuer after half of it.
const LAST_PART: i32 = 4;
/// From when until when a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first moment.
    pub from: Timestamp,
    /// The last moment.
    pub until: Timestamp,
}

/// The certificate with which Linkerd signs those of proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerCertificate {
    /// How long it is valid.
    pub validity: Validity,
    /// The certificate, and those of authorities between it and the trust anchor, in DER.
    pub chain: Vec<Vec<u8>>,
}

/// How close a certificate is to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateAge {
    /// It is not valid yet.
    Early,
    /// It is valid.
    Valid,
    /// It should have been replaced.
    EndsSoon,
    /// It has ended.
    Ended,
}

impl Validity {
    /// That of a certificate in DER; `None` if it cannot be read.
    pub fn of_der(der: &[u8]) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        let validity = certificate.validity();
        Some(Self {
            from: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
            until: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
        })
    }

    /// How close to its end it is.
    pub fn at(self, now: Timestamp) -> CertificateAge {
        let left = self.until.duration_since(now);
        let soon = SOON.min(self.until.duration_since(self.from) / LAST_PART);
        if now < self.from {
            CertificateAge::Early
        } else if left <= SignedDuration::ZERO {
            CertificateAge::Ended
        } else if left <= soon {
            CertificateAge::EndsSoon
        } else {
            CertificateAge::Valid
        }
    }
}

/// The certificates of some proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyCertificates {
    /// Those that could be seen.
    pub seen: BTreeMap<ResourceId, Validity>,
    /// Pods whose proxies could not be read, and why.
    pub unread: BTreeMap<ResourceId, String>,
}

impl ProxyCertificates {
    /// Why nothing is known about the certificate of any proxy; `None` if one was seen, or there is none.
    pub fn problem(&self) -> Option<ReadError> {
        let (pod, why) = self.unread.first_key_value()?;
        self.seen
            .is_empty()
            .then(|| format!("pod {pod}: {why}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn certificate_should_be_replaced_in_the_last_part_of_its_life() {
        let of = |from: &str, until: &str| Validity {
            from: time(from),
            until: time(until),
        };
        let day = of("2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z");
        let years = of("2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z");
        for (validity, now, expected) in [
            (day, "2026-11-19T23:59:59Z", CertificateAge::Early),
            (day, "2026-11-20T00:00:00Z", CertificateAge::Valid),
            (day, "2026-11-20T17:59:59Z", CertificateAge::Valid),
            (day, "2026-11-20T18:00:00Z", CertificateAge::EndsSoon),
            (day, "2026-11-21T00:00:00Z", CertificateAge::Ended),
            (years, "2035-11-01T23:59:59Z", CertificateAge::Valid),
            (years, "2035-11-02T00:00:00Z", CertificateAge::EndsSoon),
        ] {
            assert_eq!(validity.at(time(now)), expected, "{now}");
        }
    }
}
