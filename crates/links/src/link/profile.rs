//! The strict profile of a link: what a target cluster that is taken over could change here is as little as the settings of
//! a Link allow.

use hints::hint::misuse;
use manifests::link::LinkOptions;
use mirror_core::mirror::{Copied, Federation};

use crate::{
    given::Given,
    link::flags::{LinkArgs, LinkProfile},
};

impl LinkArgs {
    /// The flags with what the profile says, which counts as given: it also changes a Link that is there. Fails if a flag
    /// contradicts the profile, or one that it requires is missing.
    pub fn with_profile(&self, given: &Given) -> anyhow::Result<(Self, Given)> {
        let mut args = self.clone();
        if args.profile == LinkProfile::Open {
            return Ok((args, given.clone()));
        }
        let options = &mut args.options;
        for (flag, is_strict) in [
            ("copy", options.copy == Copied::Listed),
            ("federation", options.federation != Federation::Any),
        ] {
            if given.has(&[flag]) && !is_strict {
                return Err(misuse(
                    format!("--{flag} opens what the strict profile closes"),
                    "remove one of them",
                ));
            }
        }
        options.copy = Copied::Listed;
        if options.federation == Federation::Any {
            options.federation = Federation::LocalMembers;
        }
        if let Some(missing) = missing(options, args.gateway) {
            return Err(misuse(
                format!("the strict profile requires {missing}"),
                "name what the target cluster is meant to reach",
            ));
        }
        Ok((args, given.with(&["copy", "federation"])))
    }
}

/// The flag that the strict profile requires and that is missing or opens everything.
fn missing(options: &LinkOptions, gateway: bool) -> Option<&'static str> {
    let is_any = |text: &String| text == "any";
    let namespaces = options.allowed_namespaces.as_ref();
    if namespaces.is_none_or(is_any) {
        return Some("--allowed-namespaces");
    }
    let networks = &options.gateway_networks;
    let has_networks = !networks.is_empty() && !networks.iter().any(is_any);
    (gateway && !has_networks).then_some("--gateway-networks")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict(change: impl FnOnce(&mut LinkArgs), given: &[&str]) -> Result<LinkOptions, String> {
        let mut args = LinkArgs {
            profile: LinkProfile::Strict,
            ..LinkArgs::default()
        };
        args.options.allowed_namespaces = Some("team=shop".to_owned());
        args.options.gateway_networks = vec!["192.0.2.0/24".to_owned()];
        change(&mut args);
        let made = args.with_profile(&Given::of_test(given));
        let (args, given) = made.map_err(|error| error.to_string())?;
        assert!(given.has(&["copy"]) && given.has(&["federation"]));
        Ok(args.options)
    }

    #[test]
    fn strict_links_copy_what_is_listed_and_join_local_members() {
        let options = strict(|_| (), &[]).unwrap();
        assert_eq!(
            (options.copy, options.federation),
            (Copied::Listed, Federation::LocalMembers)
        );
        // What is stricter stays.
        let none = strict(
            |args| args.options.federation = Federation::None,
            &["federation"],
        );
        assert_eq!(none.unwrap().federation, Federation::None);
        // Without a gateway, there are no networks of it.
        let ungated = |args: &mut LinkArgs| {
            args.gateway = false;
            args.options.gateway_networks.clear();
        };
        assert!(strict(ungated, &[]).is_ok());
    }

    #[test]
    fn strict_links_are_refused_without_what_bounds_them() {
        let refused =
            |change: fn(&mut LinkArgs), given: &[&str]| strict(change, given).unwrap_err();
        for (said, expected) in [
            (
                refused(|args| args.options.allowed_namespaces = None, &[]),
                "the strict profile requires --allowed-namespaces",
            ),
            (
                refused(
                    |args| args.options.allowed_namespaces = Some("any".to_owned()),
                    &[],
                ),
                "the strict profile requires --allowed-namespaces",
            ),
            (
                refused(|args| args.options.gateway_networks.clear(), &[]),
                "the strict profile requires --gateway-networks",
            ),
            (
                refused(|_| (), &["copy"]),
                "--copy opens what the strict profile closes",
            ),
            (
                refused(|_| (), &["federation"]),
                "--federation opens what the strict profile closes",
            ),
        ] {
            assert_eq!(said, expected);
        }
        let open = LinkArgs::default()
            .with_profile(&Given::of_test(&[]))
            .unwrap();
        assert_eq!(open.0.options.copy, Copied::All);
        assert!(!open.1.has(&["copy"]));
    }
}
