//! What happened in clusters, and when: one list of what their objects and Events say. Pure.
//!
//! [`history`] reads the times of an object, and [`of_events`] those of Events. [`Timeline`] puts them in order.

mod events;
mod happened;
mod objects;
#[cfg(test)]
mod tests;

use mirror_core::api::text::in_brief;
use serde::Serialize;

pub use self::{
    events::{EventNames, of_events},
    happened::Happened,
    objects::{about, history},
};

/// Maximum number of entries. The oldest are left out.
const MOST: usize = 2_000;

/// What happened, newest first. Its JSON is part of the documented output of `diagnose`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// What happened.
    pub happened: Vec<Happened>,
    /// What could not be looked at, and why.
    pub unseen: Vec<String>,
}

impl Timeline {
    /// Adds what happened in a cluster, and what could not be seen there. The texts may be from hostile clusters.
    pub fn add(&mut self, cluster: &str, happened: Vec<Happened>, unseen: &[String]) {
        let happened = happened.into_iter().map(|one| Happened {
            at: one.at,
            cluster: in_brief(cluster),
            about: in_brief(&one.about),
            what: in_brief(&one.what),
        });
        self.happened.extend(happened);
        self.unseen.extend(unseen.iter().map(|line| in_brief(line)));
        self.sort();
    }

    /// Adds all that another one has.
    pub fn merge(&mut self, other: &Self) {
        self.happened.extend(other.happened.iter().cloned());
        self.unseen.extend(other.unseen.iter().cloned());
        self.sort();
    }

    fn sort(&mut self) {
        self.happened.sort_by(|one, other| other.cmp(one));
        self.happened.dedup();
        self.happened.truncate(MOST);
        self.unseen.sort();
        self.unseen.dedup();
    }
}
