//! The columns that destinations get.

use hogql::{Column, Expr, Field, Model, Query, Type};

/// What files hold.
pub fn files(model: Model) -> Query {
    match model {
        Model::Events => Query::of(
            model,
            &[
                Column::Uuid,
                Column::Timestamp,
                Column::InsertedAt,
                Column::CreatedAt,
                Column::Event,
                Column::Properties,
                Column::DistinctId,
                Column::ElementsChain,
                Column::PersonProperties,
                Column::PersonId,
            ],
        ),
        Model::Persons => {
            let mut query = persons();
            query.fields.extend(Query::of(model, &[Column::InsertedAt]).fields);
            query
        }
    }
}

/// What tables of databases hold.
pub fn table(model: Model) -> Query {
    match model {
        Model::Persons => persons(),
        Model::Events => {
            let mut query = Query::of(model, &[Column::Uuid, Column::Event, Column::Properties]);
            query.fields.extend([
                Field {
                    alias: "elements".to_owned(),
                    expr: Expr::Column(Column::ElementsChain),
                    kind: Type::Text,
                },
                raw("set", "$set"),
                raw("set_once", "$set_once"),
            ]);
            query
                .fields
                .extend(Query::of(model, &[Column::DistinctId, Column::TeamId]).fields);
            query.fields.extend([
                Field {
                    alias: "ip".to_owned(),
                    expr: Expr::Property {
                        column: Column::Properties,
                        path: vec!["$ip".to_owned()],
                    },
                    kind: Type::Text,
                },
                Field {
                    alias: "site_url".to_owned(),
                    expr: Expr::Value(hogql::Value::Text(String::new())),
                    kind: Type::Text,
                },
            ]);
            query.fields.extend(Query::of(model, &[Column::Timestamp]).fields);
            query
        }
    }
}

fn raw(alias: &str, key: &str) -> Field {
    Field {
        alias: alias.to_owned(),
        expr: Expr::Raw {
            column: Column::Properties,
            path: vec![key.to_owned()],
        },
        kind: Type::Json,
    }
}

fn persons() -> Query {
    Query::of(
        Model::Persons,
        &[
            Column::TeamId,
            Column::DistinctId,
            Column::PersonId,
            Column::Properties,
            Column::PersonDistinctIdVersion,
            Column::PersonVersion,
            Column::CreatedAt,
            Column::IsDeleted,
        ],
    )
}
