//! Who may have which name, and take part in which Service.

pub(crate) mod claims;
pub(crate) mod forbidden;
pub(crate) mod membership;
pub(crate) mod preferred;
