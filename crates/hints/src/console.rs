//! Who tells the user what goes on meanwhile. The command line prints it; nothing below does.

use std::{fmt::Debug, pin::Pin};

/// Work that a person waits for.
pub type Work<'w> = Pin<Box<dyn Future<Output = ()> + 'w>>;

/// Gets what a user should know while a command works. Results and errors are returned instead.
pub trait Console: Debug + Send + Sync {
    /// What is being done, or was done.
    fn note(&self, text: &str);
    /// What the user may have to act on.
    fn warning(&self, text: &str);
    /// A part has failed, and the others go on.
    fn error(&self, error: &anyhow::Error);
    /// Does own work, such as requests, and shows that it goes on if it takes long.
    fn working<'w>(&self, message: &str, work: Work<'w>) -> Work<'w>;
    /// Waits for something that others do, and says so if it takes long.
    fn waiting<'w>(&self, message: &str, work: Work<'w>) -> Work<'w>;
}

/// Says nothing: for tests, and for completions.
#[derive(Debug)]
struct Silent;

impl Console for Silent {
    fn note(&self, _: &str) {}
    fn warning(&self, _: &str) {}
    fn error(&self, _: &anyhow::Error) {}
    fn working<'w>(&self, _: &str, work: Work<'w>) -> Work<'w> {
        work
    }
    fn waiting<'w>(&self, _: &str, work: Work<'w>) -> Work<'w> {
        work
    }
}

impl dyn Console + '_ {
    /// The result of own work, shown as [`Console::working`] does.
    pub async fn while_working<T>(&self, message: &str, work: impl Future<Output = T>) -> T {
        let mut done = None;
        let work = async { done = Some(work.await) };
        self.working(message, Box::pin(work)).await;
        done.expect("a console does all of the work")
    }

    /// The result of what others do, shown as [`Console::waiting`] does.
    pub async fn while_waiting<T>(&self, message: &str, work: impl Future<Output = T>) -> T {
        let mut done = None;
        let work = async { done = Some(work.await) };
        self.waiting(message, Box::pin(work)).await;
        done.expect("a console waits for the end")
    }
}

impl Default for &dyn Console {
    fn default() -> Self {
        &Silent
    }
}
