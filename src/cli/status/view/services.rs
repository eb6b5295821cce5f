//! The table of Services, and the notes below it. Pure.

use jiff::Timestamp;

use super::shape::Shape;
use crate::{
    cli::{
        age::age,
        status::services::{Mode, ServiceRow},
        table::{Cell, Column, Table, Tone},
    },
    clusters::preference_status::PreferenceStatus,
};

/// The notes below the table of Services: preferred clusters that receive no requests, one line per Service.
pub(in crate::cli::status) fn absences(
    rows: &[ServiceRow],
    shape: Shape,
    now: Timestamp,
) -> Vec<String> {
    let ago = |time| format!("{} ago", age(now, Some(time)));
    let ahead = |time| format!("in {}", age(time, Some(now)));
    let absences = rows.iter().filter_map(|row| {
        let said = row.preferred.absence(ago, ahead)?;
        let service = row.service.as_deref().unwrap_or_default();
        let said = format!("{}/{service}: {said}", row.namespace);
        Some(if shape.several {
            format!("{}: {said}", row.context)
        } else {
            said
        })
    });
    absences.collect()
}

/// One row per Service.
pub(in crate::cli::status) fn services(rows: &[ServiceRow], shape: Shape) -> Table {
    let mut columns = vec![
        Column::elastic("NAMESPACE"),
        Column::elastic("SERVICE"),
        Column::new("MODE"),
        Column::elastic("FROM"),
        Column::number("ENDPOINTS"),
    ];
    // Few clusters use preferences.
    let prefers = |row: &ServiceRow| row.preferred.preference.is_some();
    let has_preferences = rows.iter().any(prefers);
    if has_preferences {
        columns.extend([Column::elastic("PREFERS"), Column::elastic("ACTIVE")]);
    }
    columns.push(Column::elastic("REASON"));
    if shape.several {
        columns.insert(0, Column::elastic("CONTEXT"));
    }
    if shape.wide {
        columns.push(Column::elastic("MESSAGE"));
    }
    let mut table = Table::new(columns);
    for row in rows {
        let endpoints = row
            .endpoints
            .map_or_else(String::new, |e| format!("{}/{}", e.ready, e.total));
        let tone = match row.healthy {
            Some(true) => Tone::Good,
            Some(false) => Tone::Bad,
            None => Tone::Plain,
        };
        let mut cells: Vec<Cell> = vec![
            (&row.namespace).into(),
            row.service.as_deref().unwrap_or_default().into(),
            row.mode.map(Mode::as_str).unwrap_or_default().into(),
            row.from.join(",").into(),
            endpoints.into(),
        ];
        if has_preferences {
            cells.extend(preferred(&row.preferred));
        }
        cells.push(Cell::toned(row.reason.as_deref().unwrap_or_default(), tone));
        if shape.several {
            cells.insert(0, (&row.context).into());
        }
        if shape.wide {
            cells.push(row.message.as_deref().unwrap_or_default().into());
        }
        table.push(cells);
    }
    table
}

/// Which clusters are preferred, and which receive the requests.
fn preferred(preferred: &PreferenceStatus) -> [Cell; 2] {
    let Some(preference) = &preferred.preference else {
        return ["-".into(), "-".into()];
    };
    let tone = if preferred.has_failed_over() {
        Tone::Doubtful
    } else {
        Tone::Good
    };
    let active = match preferred.active.as_slice() {
        [] => "all".to_owned(),
        active => active.join(","),
    };
    [preference.into(), Cell::toned(active, tone)]
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{NOW, plain, shape},
        *,
    };
    use crate::clusters::preference_status::tests::federated;

    #[test]
    fn services_that_prefer_fit_a_hundred_columns() {
        let of = |service: &str, prefer: &str, away: &str| ServiceRow {
            context: "here".into(),
            namespace: "shop".into(),
            service: Some(service.into()),
            mode: Some(Mode::Federated),
            from: ["web@(local)", "web@east", "web@west"]
                .map(Into::into)
                .into(),
            preferred: PreferenceStatus::of(&federated(prefer, away)),
            healthy: Some(true),
            reason: Some("Mirrored".into()),
            ..ServiceRow::default()
        };
        let back = "local=2026-01-01T00:00:00Z/2026-01-01T00:05:20Z";
        let gone = "east=2026-01-01T00:03:00Z/..";
        let rows = [
            of("api-federated", "", ""),
            of("auth-federated", "local,east", ""),
            of("web-federated", "local,east", back),
            of("pay-federated", "east=80,local=20", gone),
        ];
        let (now, shape) = (NOW.parse().unwrap(), shape(false, false));
        let text = plain(&services(&rows, shape), Some(100));
        insta::assert_snapshot!(text, @r"
        NAMESPACE  SERVICE         MODE       FROM              ENDPOINTS  PREFERS          ACTIVE  REASON
        shop       api-federated   federated  web@(local),web…          -  -                -       Mirrored
        shop       auth-federated  federated  web@(local),web…          -  local,east       local   Mirrored
        shop       web-federated   federated  web@(local),web…          -  local,east       east    Mirrored
        shop       pay-federated   federated  web@(local),web…          -  east=80,local=…  local   Mirrored
        ");
        assert!(text.lines().all(|line| line.chars().count() <= 100));
        insta::assert_snapshot!(absences(&rows, shape, now).join("\n"), @r"
        shop/web-federated: prefers local,east; failed over to east: local became unavailable 5m ago and receives requests again in 20s
        shop/pay-federated: prefers east=80,local=20; failed over to local: east became unavailable 2m ago
        ");
        let several = Shape {
            several: true,
            ..shape
        };
        let said = absences(&rows, several, now);
        assert!(
            said[1].starts_with("here: shop/pay-federated: "),
            "{said:?}"
        );
        let without = plain(&services(&rows[..1], shape), None);
        assert!(!without.contains("PREFERS"), "{without}");
    }
}
