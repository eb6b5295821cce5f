//! Control planes that tests use one after another. Each test finds one that is as new.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;

use crate::plane::{Checkpoint, ControlPlane};

/// Control planes of one kind that no test uses now.
#[derive(Default)]
pub struct Pool(Mutex<Vec<Prepared>>);

/// A control plane, and its objects when it was new.
struct Prepared {
    plane: ControlPlane,
    new: Checkpoint,
}

/// A control plane of a [`Pool`]. When its last clone is dropped, its servers stand still until another test takes it.
/// Whatever writes to it has to end before.
#[derive(Clone)]
pub struct Lent(Arc<Loan>);

struct Loan {
    /// `None` only while this is dropped.
    prepared: Option<Prepared>,
    pool: &'static Pool,
}

impl Pool {
    /// A pool that has no control plane yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// A control plane with this name, as `prepare` leaves a new one. It is one that another test has used, or a new one
    /// if there is none whose servers still run. All calls for a pool have to prepare the same.
    ///
    /// # Errors
    ///
    /// If none can be started, or something still writes to the one that another test has used.
    pub async fn take(
        &'static self,
        name: &str,
        prepare: impl AsyncFnOnce(&ControlPlane) -> anyhow::Result<()>,
    ) -> anyhow::Result<Lent> {
        while let Some(mut used) = self.pop() {
            // A test may have ended a server.
            if used.plane.resume().is_err() {
                continue;
            }
            let returned = used.plane.return_to(&mut used.new).await;
            returned.with_context(|| format!("{} cannot be used again", used.plane.name()))?;
            used.plane.rename(name)?;
            return Ok(self.lend(used));
        }
        let plane = ControlPlane::start(name).await?;
        prepare(&plane).await?;
        let new = plane.checkpoint().await;
        let new = new.with_context(|| format!("failed to read the objects of {name}"))?;
        Ok(self.lend(Prepared { plane, new }))
    }

    fn pop(&self) -> Option<Prepared> {
        self.idle().pop()
    }

    fn lend(&'static self, prepared: Prepared) -> Lent {
        Lent(Arc::new(Loan {
            prepared: Some(prepared),
            pool: self,
        }))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Prepared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Lent {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        let prepared = self.0.prepared.as_ref();
        &prepared
            .expect("it is only taken when this is dropped")
            .plane
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(prepared) = self.prepared.take() {
            // A server that has ended gets no signal, and whoever takes the control plane notices that.
            let _ = prepared.plane.pause();
            self.pool.idle().push(prepared);
        }
    }
}
