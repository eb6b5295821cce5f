//! Reads the routes of the local cluster.

use std::collections::BTreeMap;

use kube::{Api, Client};

use super::list::{filed, list};
use crate::{
    api::routes::{Route, RouteKind, WireRoute},
    mirror::Store,
};

/// Routes by kind; `None` if the API server does not serve the kind.
pub(super) type Routes = BTreeMap<RouteKind, Option<Store<Route>>>;

/// Lists routes of all kinds.
pub(super) async fn routes(client: &Client) -> anyhow::Result<Routes> {
    Ok(BTreeMap::from([
        (RouteKind::ALL[0], of_kind::<0>(client).await?),
        (RouteKind::ALL[1], of_kind::<1>(client).await?),
        (RouteKind::ALL[2], of_kind::<2>(client).await?),
        (RouteKind::ALL[3], of_kind::<3>(client).await?),
        (RouteKind::ALL[4], of_kind::<4>(client).await?),
        (RouteKind::ALL[5], of_kind::<5>(client).await?),
    ]))
}

async fn of_kind<const KIND: usize>(client: &Client) -> anyhow::Result<Option<Store<Route>>> {
    let api: Api<WireRoute<KIND>> = Api::all(client.clone());
    match list(&api, None).await {
        Ok(listed) => Ok(Some(filed(listed.into_iter().map(Route::from)))),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_not_found(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<kube::Error>();
    matches!(cause, Some(kube::Error::Api(status)) if status.code == 404)
}
