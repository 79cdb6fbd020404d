//! What files are called, by the origin's rule, so that readers who know it find them.

use chrono::SecondsFormat;
use service::Time;
use service::batch_exports::destination::FileOptions;

use crate::formats::Format;
use crate::{Delivery, Error};

/// Object stores take keys up to 1024 bytes, and the name of the file follows.
const MAX_PREFIX: usize = 800;
/// What file systems take.
const MAX_PART: usize = 200;
/// What some server or reader on the way might decode into something that leads elsewhere.
const DISGUISED: [&str; 4] = ["%2e", "%2f", "%5c", "%00"];

/// The names of one interval's files.
#[derive(Debug)]
pub(super) struct Names {
    folder: String,
    /// Where every name of the interval begins.
    beginning: String,
    extension: String,
    is_numbered: bool,
}

impl Names {
    pub(super) fn new(options: &FileOptions, delivery: &Delivery) -> Result<Self, Error> {
        check_prefix(&options.prefix)?;
        let folder = clean(&filled(&options.prefix, delivery));
        let stem = format!("{}-{}", iso(delivery.start), iso(delivery.end));
        Ok(Self {
            beginning: join(&folder, &stem),
            folder,
            extension: Format::of(options).extension(),
            is_numbered: options.max_file_size_mb.is_some(),
        })
    }

    pub(super) fn beginning(&self) -> &str {
        &self.beginning
    }

    /// The first is number 0.
    pub(super) fn file(&self, number: usize) -> String {
        if self.is_numbered {
            format!("{}-{number}.{}", self.beginning, self.extension)
        } else {
            format!("{}.{}", self.beginning, self.extension)
        }
    }

    pub(super) fn manifest(&self) -> String {
        format!("{}_manifest.json", self.beginning)
    }

    /// Whether a key is one that an attempt at this interval may have written, with other settings perhaps.
    pub(super) fn is_of_interval(&self, key: &str) -> bool {
        let Some(rest) = key.strip_prefix(&self.beginning) else {
            return false;
        };
        let Some(number) = rest.strip_suffix(&format!(".{}", self.extension)) else {
            return false;
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        number.is_empty() || number.strip_prefix('-').is_some_and(is_number)
    }

    /// Whether a key is in the same folder and begins like this interval's.
    pub(super) fn is_beside(&self, key: &str) -> bool {
        let in_folder = key.strip_prefix(&self.folder).is_some_and(|rest| {
            let rest = rest.strip_prefix('/').unwrap_or(rest);
            !rest.contains('/')
        });
        in_folder && key.starts_with(&self.beginning)
    }
}

/// Whether files may begin with this. Empty parts are left out; what would lead out of the place, or hides what it
/// is, is refused.
pub fn check_prefix(prefix: &str) -> Result<(), Error> {
    let refuse = |why: &str| Err(Error::plain(format!("the prefix {why}")).in_key("prefix"));
    if prefix.len() > MAX_PREFIX {
        return refuse(&format!("is longer than {MAX_PREFIX} bytes"));
    }
    if prefix.chars().any(char::is_control) {
        return refuse("contains control characters; remove them");
    }
    if prefix.contains('\\') {
        return refuse("contains a backslash; put / between folders");
    }
    let lower = prefix.to_ascii_lowercase();
    if DISGUISED.iter().any(|disguised| lower.contains(disguised)) {
        return refuse("contains an encoded dot, slash or NUL; write it unencoded");
    }
    for part in prefix.split('/') {
        if part == "." || part == ".." {
            return refuse("contains . or .. as a folder; name the folder itself");
        }
        if part.starts_with(".hedgerow") {
            return refuse(
                "contains a folder whose name starts with .hedgerow, which is reserved for unfinished files",
            );
        }
        if part.len() > MAX_PART {
            return refuse(&format!("contains a folder whose name is longer than {MAX_PART} bytes"));
        }
    }
    Ok(())
}

/// Python's `isoformat`: no fraction if there is none.
pub(super) fn iso(time: Time) -> String {
    let has_fraction = time.timestamp_subsec_micros() != 0;
    let precision = if has_fraction {
        SecondsFormat::Micros
    } else {
        SecondsFormat::Secs
    };
    time.to_rfc3339_opts(precision, false)
}

/// The part of a prefix that does not depend on the interval.
pub(super) fn fixed_part(prefix: &str) -> String {
    let parts = prefix.split('/').take_while(|part| !part.contains('{'));
    clean(&parts.collect::<Vec<_>>().join("/"))
}

pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

/// Leaves out empty parts.
fn clean(prefix: &str) -> String {
    let parts = prefix.split('/').filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("/")
}

/// Fills in the template's variables; an unknown `{name}` stays as it is.
fn filled(prefix: &str, delivery: &Delivery) -> String {
    let mut out = String::with_capacity(prefix.len());
    let mut rest = prefix;
    while let Some(start) = rest.find('{') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let variable = rest
            .find('}')
            .and_then(|end| Some((end, value(&rest[1..end], delivery)?)));
        let (used, text) = variable.map_or((1, "{".to_owned()), |(end, text)| (end + 1, text));
        out.push_str(&text);
        rest = &rest[used..];
    }
    out.push_str(rest);
    out
}

fn value(name: &str, delivery: &Delivery) -> Option<String> {
    let of_end = |format: &str| delivery.end.format(format).to_string();
    Some(match name {
        "year" => of_end("%Y"),
        "month" => of_end("%m"),
        "day" => of_end("%d"),
        "hour" => of_end("%H"),
        "minute" => of_end("%M"),
        "second" => of_end("%S"),
        "data_interval_start" => iso(delivery.start),
        "data_interval_end" => iso(delivery.end),
        "table" => delivery.model.name().to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::Schema;
    use hogql::Model;
    use service::batch_exports::destination::{Compression, FileFormat};
    use service::{ExportId, RunId};
    use uuid::Uuid;

    use super::*;

    fn names(prefix: &str, max_file_size_mb: Option<u32>) -> Names {
        let delivery = Delivery {
            export: ExportId(Uuid::nil()),
            run: RunId(Uuid::nil()),
            team: 1,
            model: Model::Events,
            start: "2023-04-25T14:00:00Z".parse().expect("a time"),
            end: "2023-04-25T15:00:00Z".parse().expect("a time"),
            schema: Arc::new(Schema::empty()),
            is_custom: false,
            is_resend: false,
            resumed_after: crate::Receipt::default(),
            acknowledged: crate::Acknowledged::default(),
        };
        let options = FileOptions {
            prefix: prefix.to_owned(),
            file_format: FileFormat::JSONLines,
            compression: Some(Compression::Gzip),
            max_file_size_mb,
        };
        Names::new(&options, &delivery).expect("a good prefix")
    }

    #[test]
    fn names_are_the_origins() {
        let interval = "2023-04-25T14:00:00+00:00-2023-04-25T15:00:00+00:00";
        assert_eq!(
            names("my-prefix", None).file(0),
            format!("my-prefix/{interval}.jsonl.gz")
        );
        assert_eq!(names("/a//b/", Some(0)).file(2), format!("a/b/{interval}-2.jsonl.gz"));
        assert_eq!(names("", None).manifest(), format!("{interval}_manifest.json"));
        let template = "{table}/{year}-{month}-{day}/{hour}{minute}{second}/{nobody}/{";
        assert_eq!(names(template, None).folder, "events/2023-04-25/150000/{nobody}/{");
        assert_eq!(names("x{data_interval_end}", None).folder, "x2023-04-25T15:00:00+00:00");
    }

    #[test]
    fn fractions_appear_only_where_there_are_any() {
        let time = |text: &str| text.parse().expect("a time");
        assert_eq!(iso(time("2023-04-25T14:00:00.5Z")), "2023-04-25T14:00:00.500000+00:00");
        assert_eq!(iso(time("2023-04-25T14:00:00Z")), "2023-04-25T14:00:00+00:00");
    }

    #[test]
    fn only_names_of_the_interval_are_its_own() {
        let names = names("p", Some(1));
        assert!(names.is_of_interval(&names.file(7)));
        let others = [
            "-x.jsonl.gz",
            "-1.jsonl",
            "-.jsonl.gz",
            "_manifest.json",
            "-1.jsonl.gz.bak",
        ];
        for other in others {
            assert!(
                !names.is_of_interval(&format!("{}{other}", names.beginning())),
                "{other}"
            );
        }
        assert!(names.is_beside(&format!("{}-1.parquet", names.beginning())));
        assert!(!names.is_beside("p/other.parquet"));
    }

    #[test]
    fn hostile_prefixes_are_refused() {
        for prefix in [
            "../x",
            "a/../b",
            "a/..",
            "./a",
            "a\\..\\b",
            "%2e%2e/x",
            "a%2Fb",
            "a\nb",
            "a\0b",
            ".hedgerow/x",
            "\u{85}",
        ] {
            let refused = check_prefix(prefix).expect_err(prefix);
            assert!(refused.is_permanent && refused.sentence.starts_with("the prefix "));
        }
        assert!(check_prefix(&"a".repeat(801)).is_err() && check_prefix(&"a".repeat(201)).is_err());
        for prefix in [
            "",
            "/",
            "a//b",
            "{year}/{month}",
            "50% off",
            "…/é",
            "a..b",
            "...",
            "...",
        ] {
            assert!(check_prefix(prefix).is_ok(), "{prefix}");
        }
    }
}
