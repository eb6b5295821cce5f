//! What one target cluster may take: bytes and hosts.

use std::ops::Add;

use crate::mirror::state::{limit::budget::Budget, store::Grouped};

/// What an object takes of what its Link may take in.
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

    /// What this has more than another.
    pub(crate) fn beyond(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            hosts: self.hosts.saturating_sub(other.hosts),
        }
    }

    /// The one of its numbers that there is too little room for.
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

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    Bytes,
    Hosts,
}

/// Something about each of what there may be too little of.
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

/// What one target cluster may take, and has taken. Clones share it.
#[derive(Clone, Debug)]
pub struct Room {
    /// Bytes in memory.
    pub bytes: Budget,
    /// Hosts by name, of headless Services.
    pub hosts: Budget,
}

impl Room {
    /// Takes all of it, or nothing.
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

    /// Whether all of it could be taken now.
    pub(crate) fn has(&self, weight: Weight) -> bool {
        self.bytes.has(weight.bytes) && self.hosts.has(weight.hosts)
    }

    /// Whether there is so much now of any that there was too little of.
    pub(crate) fn has_any(&self, lightest: Lacks<Option<usize>>) -> bool {
        lightest.bytes.is_some_and(|bytes| self.bytes.has(bytes))
            || lightest.hosts.is_some_and(|hosts| self.hosts.has(hosts))
    }
}
