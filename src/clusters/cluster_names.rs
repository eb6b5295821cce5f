//! Names of clusters that let mirrors of different clusters want one name. Pure.

use crate::mirror::mirror_name;

/// The warning about two clusters of which one is named like the end of the other, as `east` and `us-east`. Then
/// whoever exports Services of one cluster can take the names of mirrors of the other.
pub(crate) fn warning(one: &str, other: &str) -> Option<String> {
    let extra = |long: &str, short: &str| {
        let extra = long.strip_suffix(short)?.strip_suffix('-')?;
        (!extra.is_empty()).then(|| extra.to_owned())
    };
    let (short, long, extra) = match (extra(one, other), extra(other, one)) {
        (Some(extra), _) => (other, one, extra),
        (None, Some(extra)) => (one, other, extra),
        (None, None) => return None,
    };
    Some(format!(
        "clusters {short} and {long}: Service web-{extra} of {short} and Service web of {long} have mirrors of the same \
         name, {}, and the first one keeps it; link one of them under another name (--cluster-name)",
        mirror_name("web", long)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_whose_mirrors_may_have_equal_names_get_a_warning() {
        let expected = "clusters east and us-east: Service web-us of east and Service web of us-east have mirrors of \
                        the same name, web-us-east, and the first one keeps it; link one of them under another name \
                        (--cluster-name)";
        for (one, other) in [("east", "us-east"), ("us-east", "east")] {
            assert_eq!(warning(one, other).as_deref(), Some(expected));
        }
        assert!(warning("a-b-c", "c").is_some());
        for (one, other) in [
            ("east", "east"),
            ("east", "west"),
            ("useast", "east"),
            ("-east", "east"),
            ("east-us", "east"),
        ] {
            assert_eq!(warning(one, other), None, "{one} {other}");
        }
    }
}
