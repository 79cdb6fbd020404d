//! One destination for each model, as exports have it: a table for events, another for persons.

use async_trait::async_trait;
use exports::{Deliver, Delivery, Error, Step, Upload};
use hogql::{Model, Query};

pub(crate) struct ByModel {
    pub(crate) events: Box<dyn Deliver>,
    pub(crate) persons: Box<dyn Deliver>,
}

impl ByModel {
    fn of(&self, model: Model) -> &dyn Deliver {
        match model {
            Model::Events => &*self.events,
            Model::Persons => &*self.persons,
        }
    }
}

#[async_trait]
impl Deliver for ByModel {
    fn layout(&self, model: Model) -> Query {
        self.of(model).layout(model)
    }

    async fn begin(&self, delivery: &Delivery) -> Result<Option<Box<dyn Upload>>, Error> {
        self.of(delivery.model).begin(delivery).await
    }

    async fn test(&self) -> Vec<Step> {
        self.events.test().await
    }
}
