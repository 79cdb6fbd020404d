//! What tests of files share: a way out that allows loopback, folders, and `DuckDB` as the reader.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use async_trait::async_trait;
use exports::{Deliver, ExportsDeps, destinations};
use outbound::{Dialer, Http, Policy, Roots};
use serde_json::{Map, Value};
use service::batch_exports::destination::{Kind, read};
use tempfile::TempDir;
use testkit::external::{ObjectStore, duckdb};

use super::suite::Peer;

/// A folder of one's own; gone when dropped.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::with_prefix("hedgerow-").unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Names of all files below it, unfinished ones too, in order.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(path.strip_prefix(self.path()).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        found.sort();
        found
    }
}

/// Only 127.0.0.1 may be reached.
pub(crate) fn deps(export_root: Option<&Path>) -> ExportsDeps {
    let dialer = Dialer::new(Policy::new(vec!["127.0.0.1/32".parse().unwrap()]));
    let roots = Roots::public();
    ExportsDeps {
        http: Http::new(dialer.clone(), &roots).unwrap(),
        dialer,
        roots,
        export_root: export_root.map(Path::to_owned),
    }
}

/// A destination from the configuration that a user would give.
pub(crate) fn open(kind: Kind, config: &Value, deps: &ExportsDeps) -> Result<Box<dyn Deliver>, exports::Error> {
    let config: &Map<String, Value> = config.as_object().unwrap();
    destinations::open(&read(kind, config).unwrap(), deps)
}

/// How `DuckDB` reads the files of a glob, by their format.
pub(crate) fn reader(folder: &Path, glob: &str) -> String {
    let path = folder.join(glob);
    let path = path.to_str().unwrap();
    match glob {
        _ if glob.contains(".parquet") => format!("read_parquet('{path}')"),
        _ if glob.contains(".csv") => {
            format!("read_csv('{path}', header = true, quote = '\"', escape = '\"', allow_quoted_nulls = false)")
        }
        _ => format!("read_json('{path}', format = 'newline_delimited')"),
    }
}

/// All ids in the files of a glob; none if there are no such files.
pub(crate) fn uuids(folder: &Folder, glob: &str) -> Vec<String> {
    let ending = glob.rsplit('*').next().unwrap();
    if !folder.files().iter().any(|file| file.ends_with(ending)) {
        return Vec::new();
    }
    let rows = duckdb(&format!("SELECT uuid FROM {}", reader(folder.path(), glob)), &[]);
    rows.into_iter()
        .map(|row| row[0].as_str().unwrap().to_owned())
        .collect()
}

/// A store of objects, read by another client and by `DuckDB`.
pub(crate) struct StorePeer {
    pub(crate) store: ObjectStore,
    pub(crate) kind: Kind,
    pub(crate) bucket: String,
    pub(crate) config: Value,
}

impl StorePeer {
    /// All that readers see, manifests too.
    pub(crate) fn fetch(&self) -> Folder {
        let folder = Folder::new();
        self.store.fetch(&self.bucket, folder.path());
        folder
    }
}

#[async_trait]
impl Peer for StorePeer {
    fn destination(&self) -> Box<dyn Deliver> {
        open(self.kind, &self.config, &deps(None)).unwrap()
    }

    async fn uuids(&self) -> Vec<String> {
        uuids(&self.fetch(), "in/events/*.jsonl.gz")
    }

    async fn person_versions(&self) -> Option<BTreeMap<String, i64>> {
        None
    }
}
