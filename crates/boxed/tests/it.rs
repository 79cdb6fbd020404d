//! What a function can look like that returns a boxed future.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use boxed::boxed;

struct Shop {
    name: String,
}

struct Order<'a>(&'a str);

impl Shop {
    #[boxed]
    async fn borrows_without_names(&self, order: Order<'_>, note: Option<&str>, log: &mut Vec<String>) -> usize {
        later().await;
        log.push(format!("{} {} {}", self.name, order.0, note.unwrap_or_default()));
        log.len()
    }

    #[boxed]
    async fn asks(&self, fits: &(dyn Fn(&str) -> bool + Send + Sync)) -> Result<&str, String> {
        later().await;
        if !fits(&self.name) {
            Err(self.name.clone())?;
        }
        Ok(&self.name)
    }
}

#[boxed]
async fn names_and_owns<'a, T: Clone + Send + Sync>(
    first: &'a str,
    second: &str,
    mut items: Vec<T>,
) -> (&'a str, Vec<T>) {
    later().await;
    items.truncate(second.len());
    (first, items)
}

#[boxed]
async fn returns_nothing() {
    later().await;
}

/// Is ready when it is asked again.
async fn later() {
    let mut asked = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut asked, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

fn end<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

#[test]
fn what_is_borrowed_needs_no_name() {
    let shop = Shop {
        name: "shop".to_owned(),
    };
    let mut log = Vec::new();
    let text = "order".to_owned();
    assert_eq!(end(shop.borrows_without_names(Order(&text), Some("note"), &mut log)), 1);
    assert_eq!(log, ["shop order note"]);
    assert_eq!(end(shop.asks(&|name| name == text)), Err("shop".to_owned()));
    assert_eq!(end(shop.asks(&|name| name != text)), Ok("shop"));
}

#[test]
fn names_and_bounds_stay() {
    let first = "first".to_owned();
    let (kept, items) = {
        let second = "ab".to_owned();
        end(names_and_owns(&first, &second, vec![1, 2, 3]))
    };
    assert_eq!((kept, items), ("first", vec![1, 2]));
}

#[test]
fn the_future_is_small_and_can_go_to_another_thread() {
    let future: Pin<Box<dyn Future<Output = ()> + Send>> = returns_nothing();
    assert_eq!(size_of_val(&future), 2 * size_of::<usize>());
    std::thread::spawn(|| end(future)).join().unwrap();
}
