//! What was typed into the form of an export.

use std::collections::BTreeMap;

/// Each field as it was typed. Switches that are off are not sent at all.
#[derive(Debug, Clone, Default)]
pub(super) struct ExportForm(BTreeMap<String, String>);

impl From<Vec<(String, String)>> for ExportForm {
    fn from(sent: Vec<(String, String)>) -> Self {
        // Browsers end lines with two characters.
        Self(
            sent.into_iter()
                .map(|(name, text)| (name, text.replace("\r\n", "\n")))
                .collect(),
        )
    }
}

impl ExportForm {
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn set(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.0.insert(name.into(), text.into());
    }
}
