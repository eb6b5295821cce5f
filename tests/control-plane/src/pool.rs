//! Control planes that tests use one after another. Each test finds one that is as new.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;

use crate::plane::{Checkpoint, ControlPlane};

/// Name of the state of a new control plane.
const NEW: &str = "";

/// Control planes that no test uses now.
#[derive(Default)]
pub struct Pool(Mutex<Vec<Used>>);

/// A control plane, and the states to which it can return.
struct Used {
    plane: ControlPlane,
    /// Each state that a test has asked for. The first is the new one, without a name.
    states: Vec<(&'static str, Checkpoint)>,
    /// The state that the last test asked for.
    last: &'static str,
}

/// A control plane of a [`Pool`]. When its last clone is dropped, its servers stand still until another test takes it.
/// Whatever writes to it has to end before.
#[derive(Clone)]
pub struct Lent(Arc<Loan>);

struct Loan {
    /// `None` only while this is dropped.
    used: Option<Used>,
    pool: &'static Pool,
}

impl Pool {
    /// A pool that has no control plane yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// A control plane with this name, as new. It is one that another test has used, or a new one if there is none whose
    /// servers still run.
    ///
    /// # Errors
    ///
    /// If none can be started, or something still writes to the one that another test has used.
    pub async fn take(&'static self, name: &str) -> anyhow::Result<Lent> {
        self.take_prepared(name, NEW, async |_| Ok(())).await
    }

    /// A control plane as [`Self::take`] returns it, in the state in which `prepare` leaves a new one. The state has a
    /// name, because it is prepared once for each control plane: all calls with the same name have to prepare the same.
    ///
    /// # Errors
    ///
    /// Those of [`Self::take`], and if it cannot be prepared.
    pub async fn take_prepared(
        &'static self,
        name: &str,
        state: &'static str,
        prepare: impl AsyncFnOnce(&ControlPlane) -> anyhow::Result<()>,
    ) -> anyhow::Result<Lent> {
        let mut used = match self.resumed(state) {
            Some(mut used) => {
                used.plane.rename(name)?;
                used
            }
            None => Used::start(name).await?,
        };
        used.bring_to(state, prepare)
            .await
            .with_context(|| format!("{name} is not as it has to be for this test"))?;
        Ok(Lent(Arc::new(Loan {
            used: Some(used),
            pool: self,
        })))
    }

    /// A control plane that no test uses, with its servers running.
    fn resumed(&self, state: &str) -> Option<Used> {
        loop {
            let used = self.pop(state)?;
            // A test may have ended a server.
            if used.plane.resume().is_ok() {
                return Some(used);
            }
        }
    }

    /// Takes one out, if possible one that was in this state before.
    fn pop(&self, state: &str) -> Option<Used> {
        let mut idle = self.idle();
        let same = idle.iter().rposition(|used| used.last == state);
        let index = same.or_else(|| idle.len().checked_sub(1))?;
        Some(idle.swap_remove(index))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Used>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    async fn start(name: &str) -> anyhow::Result<Self> {
        let plane = ControlPlane::start(name).await?;
        let states = vec![(NEW, plane.checkpoint().await?)];
        Ok(Self {
            plane,
            states,
            last: NEW,
        })
    }

    /// Returns to a state, or prepares it if this is the first time.
    async fn bring_to(
        &mut self,
        state: &'static str,
        prepare: impl AsyncFnOnce(&ControlPlane) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let known = self.states.iter().position(|(name, _)| *name == state);
        self.plane
            .return_to(&mut self.states[known.unwrap_or(0)].1)
            .await?;
        if known.is_none() {
            prepare(&self.plane).await?;
            self.states.push((state, self.plane.checkpoint().await?));
        }
        self.last = state;
        Ok(())
    }
}

impl Deref for Lent {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        let used = self.0.used.as_ref();
        &used.expect("it is only taken when this is dropped").plane
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(used) = self.used.take() {
            // A server that has ended gets no signal, and whoever takes the control plane notices that.
            let _ = used.plane.pause();
            self.pool.idle().push(used);
        }
    }
}
