//! An event of the log as one line of JSON, an error with all that caused it: the formatter that comes with `tracing-subscriber`
//! writes an error's own sentence and leaves its causes out.

use std::error::Error;
use std::fmt;

use serde::Serializer as _;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

pub(super) struct JsonLines;

impl<S> FormatEvent<S, JsonFields> for JsonLines
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Fields::default();
        let mut now = String::new();
        SystemTime.format_time(&mut Writer::new(&mut now))?;
        line.insert("timestamp", now);
        line.insert("level", event.metadata().level().as_str());
        event.record(&mut line);
        line.insert("target", event.metadata().target());
        if let Some(span) = context.lookup_current() {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<JsonFields>>();
            let fields = fields.and_then(|fields| serde_json::from_str::<Map<_, _>>(&fields.fields).ok());
            let mut fields = fields.unwrap_or_default();
            fields.insert("name".to_owned(), span.name().into());
            line.insert("span", fields);
        }
        writeln!(writer, "{}", line.to_json().map_err(|_| fmt::Error)?)
    }
}

/// In their order, which is how people read them.
#[derive(Default)]
struct Fields(Vec<(String, Value)>);

impl Fields {
    fn insert(&mut self, name: &str, value: impl Into<Value>) {
        self.0.push((name.to_owned(), value.into()));
    }

    fn to_json(&self) -> serde_json::Result<String> {
        let mut json = Vec::new();
        let fields = self.0.iter().map(|(name, value)| (name, value));
        serde_json::Serializer::new(&mut json).collect_map(fields)?;
        Ok(String::from_utf8_lossy(&json).into_owned())
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field.name(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field.name(), value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.insert(field.name(), causes(value));
    }
}

fn causes(error: &dyn Error) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};
    use tracing_subscriber::layer::SubscriberExt;

    use super::{JsonFields, JsonLines};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_error_comes_with_what_caused_it() {
        let written = Written::default();
        let writer = written.clone();
        let layer = tracing_subscriber::fmt::layer()
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines)
            .with_writer(move || writer.clone());
        let error = anyhow::anyhow!("the disk is full").context("the event store failed");
        let error: Box<dyn std::error::Error + Send + Sync> = error.into();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let _inside = tracing::info_span!("http", method = "GET").entered();
            tracing::error!(
                error = &*error as &dyn std::error::Error,
                count = 3,
                "a \"run\"\nfailed"
            );
        });
        let text = String::from_utf8(written.0.lock().expect("no panic").clone()).expect("text");
        assert_eq!(text.lines().count(), 1, "{text}");
        let mut line: Value = serde_json::from_str(&text).expect("JSON");
        assert!(line["timestamp"].take().is_string());
        assert!(line["target"].take().is_string());
        assert_eq!(
            line,
            json!({
                "timestamp": null,
                "target": null,
                "level": "ERROR",
                "error": "the event store failed: the disk is full",
                "count": 3,
                "message": "a \"run\"\nfailed",
                "span": {"name": "http", "method": "GET"},
            })
        );
    }
}
