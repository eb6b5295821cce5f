//! The names that an authority may give to workloads: its name constraints, and those of the authorities above it. Pure.
//!
//! A proxy is known by a DNS name in its certificate, or by a SPIFFE URI. A constraint of one kind says nothing about the
//! other, so both are needed.

use x509_parser::{
    certificate::X509Certificate,
    extensions::{GeneralName, GeneralSubtree},
};

/// What the certificates below a chain of authorities may say. Each list is the constraint of one authority, and all of them
/// apply; without a list, all names are permitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignableNames {
    dns: Vec<Vec<String>>,
    uris: Vec<Vec<String>>,
}

impl SignableNames {
    /// Those below this chain, in DER; `None` if it cannot be read.
    pub fn below<'d>(chain: impl IntoIterator<Item = &'d [u8]>) -> Option<Self> {
        let mut names = Self::default();
        for der in chain {
            let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
            names.constrain(&certificate)?;
        }
        Some(names)
    }

    /// Adds the constraints of one authority.
    fn constrain(&mut self, authority: &X509Certificate<'_>) -> Option<()> {
        let Some(extension) = authority.name_constraints().ok()? else {
            return Some(());
        };
        let permitted = extension.value.permitted_subtrees.as_deref();
        let excluded = extension.value.excluded_subtrees.as_deref();
        let of = |subtrees: Option<&[GeneralSubtree<'_>]>,
                  name: fn(&GeneralName<'_>) -> Option<String>| {
            let bases = subtrees.into_iter().flatten();
            bases
                .filter_map(|subtree| name(&subtree.base))
                .collect::<Vec<_>>()
        };
        // Proxies refuse every URI as soon as one is excluded.
        let no_dns = of(excluded, dns).contains(&String::new());
        let no_uri = !of(excluded, uri).is_empty();
        for (lists, permitted, is_none) in [
            (&mut self.dns, of(permitted, dns), no_dns),
            (&mut self.uris, of(permitted, uri), no_uri),
        ] {
            if is_none {
                lists.push(Vec::new());
            } else if !permitted.is_empty() {
                lists.push(permitted);
            }
        }
        Some(())
    }

    /// Whether workloads in this trust domain may have their names.
    pub fn includes(&self, trust_domain: &str) -> bool {
        let reaches = |base: &String| is_in(base, trust_domain) || is_in(trust_domain, base);
        self.dns.iter().all(|bases| bases.iter().any(reaches))
    }

    /// Whether DNS names outside of this trust domain are permitted.
    pub fn dns_outside(&self, trust_domain: &str) -> bool {
        is_open(&self.dns, trust_domain)
    }

    /// Whether URIs of other trust domains are permitted.
    pub fn uris_outside(&self, trust_domain: &str) -> bool {
        is_open(&self.uris, trust_domain)
    }
}

/// Whether no authority permits only what is in this domain.
fn is_open(lists: &[Vec<String>], domain: &str) -> bool {
    let is_inside = |bases: &Vec<String>| bases.iter().all(|base| is_in(base, domain));
    !lists.iter().any(is_inside)
}

fn dns(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(base) => Some(base.trim_start_matches('.').to_ascii_lowercase()),
        _ => None,
    }
}

fn uri(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::URI(base) => Some(base.trim_start_matches('.').to_ascii_lowercase()),
        _ => None,
    }
}

/// Whether a domain is another one, or inside of it.
fn is_in(domain: &str, of: &str) -> bool {
    let outer = domain.strip_suffix(of);
    outer.is_some_and(|outer| outer.is_empty() || outer.ends_with('.') || of.is_empty())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CustomExtension, KeyPair};

    use super::*;

    /// A certificate with these constraints: kind, base, and whether it is permitted.
    fn with(constraints: &[(u8, &str, bool)]) -> Vec<u8> {
        let tlv = |tag: u8, content: &[u8]| {
            [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
        };
        let list = |tag: u8, is_permitted: bool| {
            let own = constraints.iter().filter(|known| known.2 == is_permitted);
            let own = own.flat_map(|(kind, base, _)| tlv(0x30, &tlv(*kind, base.as_bytes())));
            let own: Vec<u8> = own.collect();
            if own.is_empty() { own } else { tlv(tag, &own) }
        };
        let content = tlv(0x30, &[list(0xa0, true), list(0xa1, false)].concat());
        let mut params = CertificateParams::default();
        if !constraints.is_empty() {
            let extension = CustomExtension::from_oid_content(&[2, 5, 29, 30], content);
            params.custom_extensions = vec![extension];
        }
        let made = params.self_signed(&KeyPair::generate().unwrap());
        made.unwrap().der().to_vec()
    }

    #[test]
    fn names_are_those_that_each_authority_permits() {
        const DNS: u8 = 0x82;
        const URI: u8 = 0x86;
        const IP: u8 = 0x87;
        let open = [].as_slice();
        let east = [
            (DNS, "identity.linkerd.east.example", true),
            (URI, "east.example", true),
        ];
        let dns_alone = &east[..1];
        let west = [(DNS, "identity.linkerd.west.example", true)];
        // For the trust domain east.example: its own names, other DNS names, other URIs.
        for (chain, own, dns, uris) in [
            (&[open][..], true, true, true),
            (&[open, open], true, true, true),
            (&[&east], true, false, false),
            // The authority above says it, or the one below.
            (&[open, &east], true, false, false),
            (&[&east, open], true, false, false),
            (&[dns_alone], true, false, true),
            (&[dns_alone, &east[1..]], true, false, false),
            (&[&east[1..]], true, true, false),
            (&[&west], false, true, true),
            (&[&west, &east], false, false, false),
            (&[&[east[0], west[0]]], true, true, true),
            (&[&[(DNS, "east.example", true)]], true, false, true),
            (&[&[(DNS, ".EAST.example", true)]], true, false, true),
            (&[&[(DNS, "example", true)]], true, true, true),
            (&[&[(DNS, "northeast.example", true)]], false, true, true),
            (
                &[&[(DNS, "", true), (URI, ".example", true)]],
                true,
                true,
                true,
            ),
            (&[&[(DNS, "", false)]], false, false, true),
            (&[&[(DNS, "west.example", false)]], true, true, true),
            (&[&[(URI, "west.example", false)]], true, true, false),
            (&[&[(IP, "\0\0\0\0\0\0\0\0", true)]], true, true, true),
        ] {
            let ders: Vec<_> = chain.iter().map(|constraints| with(constraints)).collect();
            let names = SignableNames::below(ders.iter().map(Vec::as_slice)).unwrap();
            let said = (
                names.includes("east.example"),
                names.dns_outside("east.example"),
                names.uris_outside("east.example"),
            );
            assert_eq!(said, (own, dns, uris), "{chain:?}");
        }
        assert_eq!(SignableNames::below([&b"no DER"[..]]), None);
    }
}
