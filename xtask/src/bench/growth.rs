//! What a large database costs against a small one.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::load::Load;
use super::machine;
use super::measure::{self, Plan};
use super::servers::Hedgerow;
use crate::http::Request;
use crate::postgres::Cluster;

/// Organizations, and members of the one that is asked for.
#[derive(Clone, Copy)]
struct Size {
    name: &'static str,
    organizations: u32,
    members: u32,
}

const SMALL: Size = Size {
    name: "small",
    organizations: 100,
    members: 100,
};
const LARGE: Size = Size {
    name: "large",
    organizations: 1_000_000,
    members: 100_000,
};

/// One request on one database, small and large.
pub(super) struct Growth {
    pub(super) database: &'static str,
    pub(super) request: &'static str,
    /// Requests a second with the small database.
    pub(super) small: f64,
    /// Requests a second with the large one.
    pub(super) large: f64,
}

impl Growth {
    /// What a request costs in the large database, in multiples of the small one.
    pub(super) fn cost(&self) -> f64 {
        self.small / self.large
    }
}

/// Measures both databases in both sizes.
pub(super) fn measure(binary: &Path, dir: &Path, cluster: &Cluster, load: &Load, plan: Plan) -> Result<Vec<Growth>> {
    let mut all = Vec::new();
    for database in ["SQLite", "PostgreSQL"] {
        let rates = |size: Size| {
            let cluster = (database == "PostgreSQL").then_some(cluster);
            rates(binary, dir, cluster, size, load, plan).with_context(|| format!("growth, {} {database}", size.name))
        };
        let (small, large) = (rates(SMALL)?, rates(LARGE)?);
        for ((request, small), (_, large)) in small.into_iter().zip(large) {
            all.push(Growth {
                database,
                request,
                small,
                large,
            });
        }
    }
    Ok(all)
}

type Rates = Vec<(&'static str, f64)>;

fn rates(binary: &Path, dir: &Path, cluster: Option<&Cluster>, size: Size, load: &Load, plan: Plan) -> Result<Rates> {
    let database = if cluster.is_some() { "postgres" } else { "sqlite" };
    crate::say(&format!("growth: {database} with {} organizations", size.organizations));
    let name = format!("bench_growth_{}", size.name);
    let url = cluster.map(|cluster| cluster.create_database(&name)).transpose()?;
    let dir = dir.join(format!("growth-{database}-{}", size.name));
    let hedgerow = Hedgerow::seeded(binary, &dir, url, size.organizations, size.members)?;
    if let Some(cluster) = cluster {
        // A database that grew over months has been cleaned and analyzed in the background long ago.
        cluster.sql(&name, "VACUUM ANALYZE")?;
        cluster.sql(&name, "CHECKPOINT")?;
    }
    let ready = hedgerow.start()?;
    machine::wait_for_quiet()?;
    let last = size.members / 10 * 9;
    let asked: [(&str, Request); 6] = [
        ("retrieve an organization", hedgerow.organization()),
        ("first 100 members", hedgerow.members("limit=100")),
        (
            "10 members after nine tenths of them",
            hedgerow.members(&format!("limit=10&offset={last}")),
        ),
        ("members by email", hedgerow.members("email=owner@example.com")),
        ("search for members", hedgerow.members("search=owner@example.com")),
        ("first 100 organizations", hedgerow.organizations()),
    ];
    let mut rates = Vec::new();
    for (title, request) in asked {
        measure::checked(ready.port, &request)?;
        let rate = measure::full_load(ready.port, &request, load, plan)?.rate;
        crate::say(&format!("  {title:<26} {rate:>9.0} requests/s"));
        rates.push((title, rate));
    }
    Ok(rates)
}
