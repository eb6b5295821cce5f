//! Formats log lines as text and as JSON. A field stays on one line, is cut at [`LONGEST`] characters, and has no
//! control characters, whatever its source.

use std::fmt::{self, Write as _};

use serde_json::Value;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::Writer,
        time::{FormatTime as _, SystemTime},
    },
    registry::LookupSpan,
};

use mirror_core::api::text::one_line_of;

/// Maximum length of a field, in characters.
const LONGEST: usize = 2_000;

/// The crates of this program that log.
const OWN: [&str; 2] = ["linkerd_mc", "controller"];

/// The filter for what this program logs itself, from a level on.
pub fn own(level: &str) -> String {
    OWN.map(|name| format!("{name}={level}")).join(",")
}

/// Writes a field of a line of text.
pub fn field(to: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = one_line_of(&format!("{value:?}"), LONGEST);
    match field.name() {
        "message" => to.write_str(&text),
        name => write!(to, "{name}={text}"),
    }
}

/// Writes each event as a JSON object: timestamp, level, the event's fields, target.
pub struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = Fields(String::new());
        fields.put("timestamp", &time.into());
        fields.put("level", &event.metadata().level().as_str().into());
        event.record(&mut fields);
        fields.put("target", &event.metadata().target().into());
        writeln!(to, "{{{}}}", fields.0)
    }
}

/// Writes fields of a JSON object, in the order in which they are recorded.
struct Fields(String);

impl Fields {
    fn put(&mut self, name: &str, value: &Value) {
        let separator = if self.0.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{separator}{}:{value}", Value::from(name));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), &one_line_of(value, LONGEST).into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), &value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), &value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), &value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), &value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing::Level;
    use tracing_subscriber::{field::MakeExt as _, fmt::format::debug_fn};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    const FORGED: &str = "no\nERROR forged\r\u{1b}[31m\u{202e}\"}";

    fn log() {
        let long = format!("{FORGED}{}", "x".repeat(100_000));
        tracing::event!(Level::WARN, link = %long, said = long, keys = 7_usize, well = false, "told: {long}");
    }

    #[test]
    fn what_each_crate_logs_is_shown() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
        let mut logging = vec!["linkerd_mc".to_owned()];
        for folder in std::fs::read_dir(crates).unwrap() {
            let folder = folder.unwrap();
            let manifest = std::fs::read_to_string(folder.path().join("Cargo.toml")).unwrap();
            if manifest.contains("\ntracing.") {
                let name = folder.file_name().into_string().unwrap();
                logging.push(name.replace('-', "_"));
            }
        }
        assert_eq!(logging, OWN);
    }

    #[test]
    fn untrusted_text_stays_in_its_json_field_and_is_cut() {
        let to = Lines::default();
        let writer = to.clone();
        let json = tracing_subscriber::fmt()
            .event_format(Json)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(json.finish(), log);
        let text = to.text();
        let line: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(text.lines().count(), 1);
        let mut names: Vec<&str> = line.keys().map(String::as_str).collect();
        names.sort_unstable();
        let expected = "keys level link message said target timestamp well";
        assert_eq!(names.join(" "), expected);
        assert_eq!(
            (&line["level"], &line["keys"], &line["well"]),
            (&"WARN".into(), &7.into(), &false.into())
        );
        for name in ["link", "said", "message"] {
            let said = line[name].as_str().unwrap();
            assert!(said.contains("no ERROR forged [31m\"}xxx"), "{said:.100}");
            assert_eq!(said.chars().count(), LONGEST, "{name}");
        }
    }

    #[test]
    fn untrusted_text_stays_in_its_field_of_a_text_line_and_is_cut() {
        let to = Lines::default();
        let writer = to.clone();
        let plain = tracing_subscriber::fmt()
            .with_ansi(false)
            .fmt_fields(debug_fn(field).delimited(" "))
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(plain.finish(), log);
        let text = to.text();
        assert_eq!(text.lines().count(), 1);
        assert!(text.len() < 4 * LONGEST, "{}", text.len());
        assert!(!text.contains(['\u{1b}', '\r', '\u{202e}']));
    }
}
