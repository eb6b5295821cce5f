//! Which object may have which name, and which clusters may take part in which Service.

pub(crate) mod claims;
pub(crate) mod consent;
pub(crate) mod forbidden;
pub(crate) mod membership;
pub(crate) mod preferred;
