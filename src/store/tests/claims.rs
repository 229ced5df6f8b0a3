//! Claims: one key, one answer.

use super::*;
use crate::clock::now_us;

fn key(owner: &str) -> ClaimKey {
    ClaimKey { agent: "support".into(), owner: owner.into(), key: "order-7".into() }
}

fn claim(owner: &str) -> Claim {
    Claim { key: key(owner), hash: [7; 32], reserve: Uuid::now_v7() }
}

fn existing(claim: &Claim, state: ClaimedAs) -> Claimed {
    Claimed::Existing { hash: claim.hash, task: claim.reserve, state }
}

/// Claims the key for `owner`, and answers with a message.
async fn answered(store: &Store, owner: &str) -> Claim {
    let claim = claim(owner);
    assert_eq!(store.claim(claim.clone()).await.unwrap(), Claimed::New);
    store.end_claim(claim.key.clone(), ClaimEnd::Message(vec![1])).await.unwrap();
    claim
}

#[tokio::test]
async fn a_key_is_taken_once_in_each_scope() {
    let open = Open::at(StoreUrl::Memory);
    let first = answered(&open.store, "ann").await;
    let again = Claim { hash: [8; 32], ..claim("ann") };
    assert_eq!(open.store.claim(again).await.unwrap(), existing(&first, ClaimedAs::Message(vec![1])));
    assert_eq!(open.store.claim(claim("bob")).await.unwrap(), Claimed::New);
    let mut other = claim("ann");
    other.key.agent = "other".into();
    assert_eq!(open.store.claim(other).await.unwrap(), Claimed::New);
}

#[tokio::test]
async fn a_message_is_kept_as_it_was_given() {
    let open = Open::at(StoreUrl::Memory);
    let first = claim("ann");
    open.store.claim(first.clone()).await.unwrap();
    open.store.end_claim(key("ann"), ClaimEnd::Message(vec![1, 0, 2])).await.unwrap();
    let found = open.store.claim(claim("ann")).await.unwrap();
    assert_eq!(found, existing(&first, ClaimedAs::Message(vec![1, 0, 2])));
    // What was answered is not given back.
    open.store.end_claim(key("ann"), ClaimEnd::Release).await.unwrap();
    assert_eq!(open.store.claim(claim("ann")).await.unwrap(), found);
}

#[tokio::test]
async fn a_key_given_back_is_free() {
    let open = Open::at(StoreUrl::Memory);
    open.store.claim(claim("ann")).await.unwrap();
    open.store.end_claim(key("ann"), ClaimEnd::Release).await.unwrap();
    assert_eq!(open.store.claim(claim("ann")).await.unwrap(), Claimed::New);
}

#[tokio::test]
async fn a_task_makes_the_claim_good_and_survives_a_restart() {
    let (_dir, url) = place();
    let mut open = Open::at(url.clone());
    let first = claim("ann");
    open.store.claim(first.clone()).await.unwrap();
    let mut append = new_task(&open.store, "ann", "c", TaskState::Working, 1);
    append.new.as_mut().unwrap().id = first.reserve;
    append.claims = vec![key("ann")];
    open.writer.push(Item::new(vec![append]));
    assert!(matches!(open.commits.recv().await, Some(Commit::Done(_))));
    assert_eq!(open.store.claim(claim("ann")).await.unwrap(), existing(&first, ClaimedAs::Task));
    open.close();
    let again = Open::at(url);
    assert_eq!(again.store.claim(claim("ann")).await.unwrap(), existing(&first, ClaimedAs::Task));
}

#[tokio::test]
async fn a_claim_that_was_never_ended_may_be_taken_though_its_task_is_there() {
    let (_dir, url) = place();
    let mut open = Open::at(url.clone());
    // A turn of a task that exists: its being there says nothing of whether the turn was taken.
    let append = new_task(&open.store, "ann", "c", TaskState::InputRequired, 1);
    let turn = Claim { reserve: append.new.as_ref().unwrap().id, ..claim("ann") };
    open.writer.push(Item::new(vec![append]));
    assert!(matches!(open.commits.recv().await, Some(Commit::Done(_))));
    assert_eq!(open.store.claim(turn.clone()).await.unwrap(), Claimed::New);
    assert_eq!(open.store.claim(turn.clone()).await.unwrap(), Claimed::New);
    open.close();
    let again = Open::at(url);
    assert_eq!(again.store.claim(turn).await.unwrap(), Claimed::New);
}

#[tokio::test]
async fn a_key_is_forgotten_after_a_day() {
    let (dir, url) = place();
    let open = Open::at(url);
    let first = answered(&open.store, "ann").await;
    let age = |by_us: i64| {
        let conn = rusqlite::Connection::open(dir.path().join("tricord.db")).unwrap();
        conn.execute("UPDATE claim SET created_us = created_us - ?1", [by_us]).unwrap();
    };
    let hour = 3_600_000_000;
    age(23 * hour);
    assert_eq!(open.store.claim(claim("ann")).await.unwrap(), existing(&first, ClaimedAs::Message(vec![1])));
    age(2 * hour);
    assert_eq!(open.store.claim(claim("ann")).await.unwrap(), Claimed::New);
    age(25 * hour);
    open.store.0.queue.ask(Job::Prune { now_us: now_us() }).await.unwrap();
    let conn = rusqlite::Connection::open(dir.path().join("tricord.db")).unwrap();
    assert_eq!(conn.query_row("SELECT count(*) FROM claim", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[tokio::test]
async fn a_closed_store_answers() {
    let open = Open::at(StoreUrl::Memory);
    open.writer.close();
    assert_eq!(open.store.claim(claim("ann")).await, Err(StoreError::Closed));
}
