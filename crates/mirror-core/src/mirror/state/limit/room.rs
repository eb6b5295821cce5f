//! Room: the bytes and hosts that may be kept for one target cluster.

use std::ops::Add;

use crate::mirror::state::{limit::budget::Budget, store::Grouped};

/// What an object needs of the room of its Link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Bytes in memory.
    pub bytes: usize,
    /// Hosts by name, of a headless Service.
    pub hosts: usize,
}

impl Weight {
    /// The weight of an object.
    pub fn of(object: &impl Grouped) -> Self {
        Self {
            bytes: object.weight(),
            hosts: object.hosts().len(),
        }
    }

    /// How much more this is than another weight.
    pub(crate) fn beyond(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            hosts: self.hosts.saturating_sub(other.hosts),
        }
    }

    /// The bytes or the hosts, whichever of them is lacking.
    pub(crate) fn of_lack(self, lack: Lack) -> usize {
        match lack {
            Lack::Bytes => self.bytes,
            Lack::Hosts => self.hosts,
        }
    }
}

impl Add for Weight {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            hosts: self.hosts + other.hosts,
        }
    }
}

/// What is lacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    Bytes,
    Hosts,
}

/// A value for each kind of lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lacks<T> {
    pub(crate) bytes: T,
    pub(crate) hosts: T,
}

impl<T> Lacks<T> {
    pub(crate) fn of(&mut self, lack: Lack) -> &mut T {
        match lack {
            Lack::Bytes => &mut self.bytes,
            Lack::Hosts => &mut self.hosts,
        }
    }
}

/// The room of one target cluster, and how much of it is taken. Clones share it.
#[derive(Clone, Debug)]
pub struct Room {
    /// Bytes in memory.
    pub bytes: Budget,
    /// Hosts by name, of headless Services.
    pub hosts: Budget,
}

impl Room {
    /// Takes the whole weight, or nothing.
    pub(crate) fn take(&self, weight: Weight) -> Result<(), Lack> {
        if !self.bytes.take(weight.bytes) {
            return Err(Lack::Bytes);
        }
        if !self.hosts.take(weight.hosts) {
            self.bytes.give_back(weight.bytes);
            return Err(Lack::Hosts);
        }
        Ok(())
    }

    pub(crate) fn give_back(&self, weight: Weight) {
        self.bytes.give_back(weight.bytes);
        self.hosts.give_back(weight.hosts);
    }

    /// Whether there is room for this weight now.
    pub(crate) fn has(&self, weight: Weight) -> bool {
        self.bytes.has(weight.bytes) && self.hosts.has(weight.hosts)
    }

    /// Whether there is room now for the lightest object of any kind of lack.
    pub(crate) fn has_any(&self, lightest: Lacks<Option<usize>>) -> bool {
        lightest.bytes.is_some_and(|bytes| self.bytes.has(bytes))
            || lightest.hosts.is_some_and(|hosts| self.hosts.has(hosts))
    }
}
