//! Which cluster serves a Service, and how well: from two samples of the proxies of its clients. Pure.
//!
//! [`clusters::traffic`](crate::clusters::traffic) reads the samples. [`increase`] computes what each client did between
//! two of them, and [`rows`] adds that up by Service and serving cluster. [`histogram`] has the quantiles, which are those
//! of Prometheus.

mod failing;
mod histogram;
mod increase;
mod rows;

pub use self::{
    failing::{FailingGroup, FailingName, FailingService, RequestFailure, failing},
    increase::{Activity, ClientActivity, increase},
    rows::{ServedBy, TrafficRow, rows},
};
