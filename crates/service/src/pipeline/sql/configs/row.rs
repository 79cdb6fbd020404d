//! The columns of a configuration. A new one is named here, once, and bound here, once.

/// What a configuration has from the start, in the order of [`bind_fixed`].
macro_rules! fixed {
    ($table:literal) => {
        $crate::db::columns::columns!($table => organization_id, app_id, team_id, web_token, created_at)
    };
}

/// Binds what [`fixed`] names.
macro_rules! bind_fixed {
    ($query:expr, $bind:ident, $config:expr) => {
        $query
            .$bind($config.organization_id)
            .$bind($config.app_id)
            .$bind($config.team_id)
            .$bind(&$config.web_token)
            .$bind($config.created_at)
    };
}

/// What changes, in the order of [`bind_changing`], but for what it tells its app, which may be large.
macro_rules! changing {
    ($table:literal) => {
        $crate::db::columns::columns!(
            $table => enabled, sort_order, delivered_until, delivered_count, due_at, attempt, tries, failures, latest_error,
            version, updated_at
        )
    };
}

/// Binds what [`changing`] names.
macro_rules! bind_changing {
    ($query:expr, $bind:ident, $config:expr) => {
        $query
            .$bind($config.enabled)
            .$bind($config.order)
            .$bind($config.delivered_until)
            .$bind($config.delivered_count)
            .$bind($config.due_at)
            .$bind($config.attempt)
            .$bind($config.tries)
            .$bind($config.failures)
            .$bind(&$config.latest_error)
            .$bind($config.version)
            .$bind($config.updated_at)
    };
}

/// Configurations, with these columns for what they tell their apps.
macro_rules! select_with {
    ($values:literal, $rest:literal) => {
        concat!(
            "SELECT c.id, ",
            $crate::pipeline::sql::configs::row::fixed!("c."),
            ", ",
            $crate::pipeline::sql::configs::row::changing!("c."),
            ", ",
            $values,
            ", c.allowed_hosts, a.collection, a.name AS app_name, a.version AS latest_version \
             FROM pipeline_config c JOIN pipeline_app a ON a.id = c.app_id ",
            $rest
        )
    };
}

macro_rules! select {
    ($rest:literal) => {
        $crate::pipeline::sql::configs::row::select_with!("c.config, c.secrets", $rest)
    };
}

pub(super) use {bind_changing, bind_fixed, changing, fixed, select, select_with};
