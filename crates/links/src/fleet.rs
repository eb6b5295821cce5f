//! The links of a fleet's file: what is read of its clusters, the plan, and what runs.

pub mod accounts;
pub mod apply;
pub mod by_context;
pub mod extension;
pub mod facts;
pub mod folder;
pub mod gather;
pub mod hand_over;
pub mod hub;
pub mod identity;
pub mod imported;
pub mod layout;
pub mod link_objects;
pub mod link_plan;
pub mod link_settings;
pub mod loaded;
pub mod new_tokens;
pub mod part;
pub mod part_plan;
pub mod plan;
pub mod profiles;
pub mod recorded;
pub mod remaining;
pub mod removal;
pub mod source_writes;
