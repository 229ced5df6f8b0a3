//! The store as its users see it.

use super::*;
use crate::schema::store::record::Event;
use crate::schema::store::{Created, Record, StatusChange};
use prost::Message;
use std::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A pending item that gives its appends one by one.
struct Item(Mutex<Vec<Append>>);

impl Item {
    fn new(mut appends: Vec<Append>) -> Arc<Self> {
        appends.reverse();
        Arc::new(Item(Mutex::new(appends)))
    }
}

impl Pending for Item {
    fn take(&self) -> Option<Append> {
        self.0.lock().unwrap().pop()
    }
}

/// An open store with its writer.
struct Open {
    store: Store,
    writer: Writer<Item>,
    commits: UnboundedReceiver<Commit<Item>>,
}

impl Open {
    fn at(url: StoreUrl) -> Open {
        Open::with(&Options::new(url))
    }

    fn with(options: &Options) -> Open {
        let store = Store::open(options).unwrap();
        let (sender, commits) = unbounded_channel();
        let writer = Writer::start(store.clone(), sender).unwrap();
        Open { store, writer, commits }
    }

    /// Writes appends in one go, and returns what became of each.
    fn write(&mut self, appends: impl IntoIterator<Item = Append>) -> Vec<Result<u64, String>> {
        let items: Vec<_> = appends.into_iter().map(|a| Item::new(vec![a])).collect();
        self.writer.push_all(items.iter().cloned());
        let mut results = Vec::new();
        while results.len() < items.len() {
            match self.commits.blocking_recv().expect("the writer answers") {
                Commit::Done(done) => results.extend(done.into_iter().map(|(_, r)| r.map_err(|e| e.to_string()))),
                Commit::Failed(items, why) => results.extend(items.iter().map(|_| Err(why.to_string()))),
            }
        }
        results
    }

    fn close(self) {
        self.writer.close();
    }
}

fn record(seq: u64, event: Event) -> Record {
    Record { seq, time_us: 1_000_000 + seq as i64, event: Some(event) }
}

fn status(state: TaskState) -> Event {
    Event::Status(StatusChange { state: state as i32, ..StatusChange::default() })
}

/// The append that makes a task in a state, with two records.
fn new_task(store: &Store, owner: &str, context: &str, state: TaskState, status_us: i64) -> Append {
    let records = vec![record(1, Event::Created(Created::default())), record(2, status(state))];
    Append {
        pk: store.allocate(),
        new: Some(NewTask {
            id: Uuid::now_v7(),
            agent: "support".into(),
            owner: owner.into(),
            context: context.into(),
            created_us: status_us,
        }),
        first: 1,
        last: 2,
        body: RecordBatch { records }.encode_to_vec(),
        row: Some(Row { state, status_us, live: !matches!(state, TaskState::Completed) }),
        checkpoint: None,
        claim: None,
    }
}

fn id(append: &Append) -> Uuid {
    append.new.as_ref().unwrap().id
}

#[test]
fn what_was_written_is_found_again() {
    let mut open = Open::at(StoreUrl::Memory);
    let append = new_task(&open.store, "ann", "trip to Rome", TaskState::Working, 5);
    assert_eq!(open.write([append.clone()]), [Ok(2)]);
    let row = open.store.find("support", "ann", id(&append)).unwrap().unwrap();
    assert_eq!((row.pk, row.state, row.status_us, row.live), (append.pk, TaskState::Working, 5, true));
    assert_eq!(&*row.context, "trip to Rome");
    assert_eq!(open.store.find("support", "bob", id(&append)).unwrap(), None);
    assert_eq!(open.store.find("other", "ann", id(&append)).unwrap(), None);
    let log = open.store.log(append.pk, 0).unwrap();
    assert_eq!(log.batches, [RecordBatch::decode(&*append.body).unwrap()]);
    open.close();
}
