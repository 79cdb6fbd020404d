//! An app's code: as it was written, and ready to run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// An app's source: the text of each file, by its name within the app.
pub type Files = BTreeMap<String, String>;

/// An app's transpiled code. Whoever keeps it need not transpile again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// The module that is loaded first; none if the app has no code that runs here.
    pub entry: Option<String>,
    pub modules: BTreeMap<String, Module>,
}

/// One file of an app, transpiled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// The body of a function that gets `exports`, `require` and `module`.
    pub code: String,
    /// What each import of it means.
    pub imports: BTreeMap<String, Target>,
    /// Whether it was written with `import` and `export`.
    pub is_esm: bool,
    /// Functions at its top level, which are what an app without exports offers.
    pub declared: BTreeSet<String>,
    /// From positions in `code` to those in the source, as source maps write them.
    pub mappings: String,
}

/// What an import means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Another file of the app.
    File(String),
    /// A package that apps are given.
    Package(String),
    /// A package that apps once were given elsewhere: it can be imported, and throws when it is used.
    Absent(String),
}
