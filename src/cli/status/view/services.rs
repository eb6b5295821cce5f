//! The table of Services, and the notes below it. Pure.

use jiff::Timestamp;
use observe::clusters::{
    preference_status::PreferenceStatus, service_rows::ServiceRow, shown_mode::ShownMode,
};

use super::shape::TableShape;
use crate::cli::common::table::{Cell, Column, Table, Tone, age};

/// One row per Service.
pub fn services(rows: &[ServiceRow], shape: TableShape) -> Table {
    let mut columns = vec![
        Column::elastic("NAMESPACE"),
        Column::key("SERVICE"),
        Column::new("MODE").spare(1),
        // The names of most mirrors say it too.
        Column::elastic("FROM").spare(3),
        Column::number("ENDPOINTS"),
    ];
    // Few clusters use preferences.
    let prefers = |row: &ServiceRow| row.preferred.preference.is_some();
    let has_preferences = rows.iter().any(prefers);
    if has_preferences {
        columns.extend([
            Column::elastic("PREFERS").spare(2),
            Column::elastic("ACTIVE"),
        ]);
    }
    columns.push(Column::new("REASON"));
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
        let mut cells: Vec<Cell> = vec![
            (&row.namespace).into(),
            name(row).into(),
            row.mode.map(ShownMode::as_str).unwrap_or_default().into(),
            row.from.join(",").into(),
            endpoints.into(),
        ];
        if has_preferences {
            cells.extend(preferred(&row.preferred));
        }
        cells.push(reason(row));
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

/// What a row is called: one that does not exist by what it would mirror.
fn name(row: &ServiceRow) -> String {
    let missing = || row.from.join(",");
    row.service.clone().unwrap_or_else(missing)
}

/// The controller's reason. A mirror to which no request can be sent is not well, whatever is reported.
fn reason(row: &ServiceRow) -> Cell {
    let reason = row.reason.as_deref().unwrap_or_default();
    match (row.healthy, row.endpoints) {
        (Some(false), _) => Cell::toned(reason, Tone::Bad),
        (_, Some(endpoints)) if endpoints.total == 0 => Cell::toned("NoEndpoints", Tone::Bad),
        (_, Some(endpoints)) if endpoints.ready == 0 => Cell::toned("NotReady", Tone::Bad),
        (Some(true), _) => Cell::toned(reason, Tone::Good),
        (None, _) => Cell::toned(reason, Tone::Plain),
    }
}

/// Which clusters are preferred, and which receive the requests.
fn preferred(preferred: &PreferenceStatus) -> [Cell; 2] {
    let Some(preference) = &preferred.preference else {
        return ["-".into(), "-".into()];
    };
    let tone = if preferred.has_failed_over {
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

/// The notes below the table: mirrors without endpoints, problems that the controller reports, and preferred clusters that receive no requests.
pub fn notes(rows: &[ServiceRow], shape: TableShape, now: Timestamp) -> Vec<String> {
    let mut notes: Vec<String> = without_endpoints(rows).into_iter().collect();
    if !shape.wide {
        notes.extend(rows.iter().filter_map(|row| problem(row, shape)));
    }
    notes.extend(absences(rows, shape, now));
    notes
}

/// What the controller says of a Service that it does not mirror, which the wide table has in a column.
fn problem(row: &ServiceRow, shape: TableShape) -> Option<String> {
    let message = row
        .message
        .as_ref()
        .filter(|_| row.healthy == Some(false))?;
    let said = format!("{}/{}: {message}", row.namespace, name(row));
    Some(if shape.several {
        format!("{}: {said}", row.context)
    } else {
        said
    })
}

/// How many mirrors have no endpoint that is ready; `None` if all have one.
fn without_endpoints(rows: &[ServiceRow]) -> Option<String> {
    let with = |is: fn(usize, usize) -> bool| {
        let endpoints = rows.iter().filter_map(|row| row.endpoints);
        endpoints.filter(|e| is(e.ready, e.total)).count()
    };
    let all = with(|_, _| true);
    let (none, unready) = (
        with(|_, total| total == 0),
        with(|ready, total| ready == 0 && total > 0),
    );
    let counts = [
        (none, "no endpoints"),
        (unready, "no endpoint that is ready"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, what)| format!("{count} of {all} mirrors have {what}"))
        .collect();
    (!counts.is_empty()).then(|| {
        format!(
            "{}; check their Pods in the target cluster, and its gateway",
            counts.join(", ")
        )
    })
}

/// Preferred clusters that receive no requests, one line per Service.
fn absences(rows: &[ServiceRow], shape: TableShape, now: Timestamp) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use observe::clusters::{fixtures::federated, service_rows::CountOutput};

    use super::*;
    use crate::cli::status::view::shape::tests::{NOW, plain, shape};

    #[test]
    fn mirror_without_ready_endpoints_is_not_well() {
        let of = |ready, total, healthy, word: &str| ServiceRow {
            endpoints: Some(CountOutput { ready, total }),
            healthy,
            reason: Some(word.into()),
            ..ServiceRow::default()
        };
        let rows = [
            of(1, 2, Some(true), "Mirrored"),
            of(0, 2, Some(true), "Mirrored"),
            of(0, 0, None, ""),
            of(0, 0, Some(false), "NameConflict"),
        ];
        let words: Vec<Cell> = rows.iter().map(reason).collect();
        let bad = |word| Cell::toned(word, Tone::Bad);
        let expected = [
            Cell::toned("Mirrored", Tone::Good),
            bad("NotReady"),
            bad("NoEndpoints"),
            bad("NameConflict"),
        ];
        assert_eq!(words, expected);
        let notes = notes(&rows, shape(false, false), NOW.parse().unwrap());
        assert_eq!(
            notes,
            [
                "2 of 4 mirrors have no endpoints, 1 of 4 mirrors have no endpoint that is ready; check their Pods in the \
              target cluster, and its gateway"
            ]
        );
        assert_eq!(without_endpoints(&rows[..1]), None);
    }

    #[test]
    fn what_is_not_mirrored_is_named_with_its_problem_in_narrow_tables() {
        let of = |service: Option<&str>, from: &str, reason: &str, message: &str| ServiceRow {
            context: "here".into(),
            namespace: "shop".into(),
            service: service.map(Into::into),
            mode: service.map(|_| ShownMode::RemoteDiscovery),
            from: vec![from.into()],
            healthy: Some(reason == "Mirrored"),
            reason: Some(reason.into()),
            message: Some(message.into()).filter(|text: &String| !text.is_empty()),
            ..ServiceRow::default()
        };
        let rows = [
            of(
                None,
                "stock@east",
                "NameConflict",
                "Service stock-east exists",
            ),
            of(
                None,
                "web@north",
                "MissingNamespace",
                "Namespace does not exist",
            ),
            of(Some("api-north"), "api@north", "Mirrored", ""),
        ];
        let shape = shape(false, false);
        let table = services(&rows, shape);
        insta::assert_snapshot!(plain(&table, Some(60)), @r"
        NAMESPACE  SERVICE     ENDPOINTS  REASON
        shop       stock@east          -  NameConflict
        shop       web@north           -  MissingNamespace
        shop       api-north           -  Mirrored
        (too narrow for MODE, FROM)
        ");
        let said = notes(&rows, shape, NOW.parse().unwrap());
        assert_eq!(
            said,
            [
                "shop/stock@east: Service stock-east exists",
                "shop/web@north: Namespace does not exist"
            ]
        );
        let wide = TableShape {
            wide: true,
            ..shape
        };
        assert_eq!(notes(&rows, wide, NOW.parse().unwrap()), [""; 0]);
    }

    #[test]
    fn services_that_prefer_fit_sixty_columns() {
        let row = ServiceRow {
            namespace: "a-long-namespace".into(),
            service: Some("a-service-with-a-long-name-federated".into()),
            mode: Some(ShownMode::Federated),
            preferred: PreferenceStatus::of(&federated("local,east", "")),
            reason: Some("Mirrored".into()),
            ..ServiceRow::default()
        };
        let text = plain(&services(&[row], shape(false, false)), Some(60));
        assert!(
            text.lines().all(|line| line.chars().count() <= 60),
            "{text}"
        );
    }

    /// The picture is recorded now and then, and shown first.
    #[test]
    fn picture_of_the_readme_has_the_columns_of_this_table() {
        let picture = include_str!("../../../../docs/pictures/status.svg");
        let row = ServiceRow {
            preferred: PreferenceStatus::of(&federated("local", "")),
            ..ServiceRow::default()
        };
        let text = plain(&services(&[row], shape(false, false)), None);
        let header = text.lines().next().unwrap_or_default();
        assert!(header.contains("PREFERS"), "{header}");
        for column in header.split_whitespace() {
            let shown = format!(">{column}</text>");
            assert!(picture.contains(&shown), "{column} is not in the picture");
        }
    }

    #[test]
    fn services_that_prefer_fit_a_hundred_columns() {
        let of = |service: &str, prefer: &str, away: &str| ServiceRow {
            context: "here".into(),
            namespace: "shop".into(),
            service: Some(service.into()),
            mode: Some(ShownMode::Federated),
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
        let narrow = plain(&services(&rows, shape), Some(78));
        insta::assert_snapshot!(narrow, @r"
        NAMESPACE  SERVICE         MODE       ENDPOINTS  PREFERS      ACTIVE  REASON
        shop       api-federated   federated          -  -            -       Mirrored
        shop       auth-federated  federated          -  local,east   local   Mirrored
        shop       web-federated   federated          -  local,east   east    Mirrored
        shop       pay-federated   federated          -  east=80,lo…  local   Mirrored
        (too narrow for FROM)
        ");
        insta::assert_snapshot!(absences(&rows, shape, now).join("\n"), @r"
        shop/web-federated: prefers local,east; failed over to east: local became unavailable 5m ago and receives requests again in 20s
        shop/pay-federated: prefers east=80,local=20; failed over to local: east became unavailable 2m ago
        ");
        let several = TableShape {
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
