//! Claims: one key, one answer.

use super::*;

fn key(owner: &str) -> ClaimKey {
    ClaimKey { agent: "support".into(), owner: owner.into(), key: "order-7".into() }
}

fn claim(owner: &str) -> Claim {
    Claim { key: key(owner), hash: [7; 32], reserve: Uuid::now_v7() }
}

fn existing(claim: &Claim, state: ClaimedAs) -> Claimed {
    Claimed::Existing { hash: claim.hash, task: claim.reserve, state }
}

#[tokio::test]
async fn a_key_is_taken_once_in_each_scope() {
    let open = Open::at(StoreUrl::Memory);
    let first = claim("ann");
    assert_eq!(open.store.claim(first.clone()).await.unwrap(), Claimed::New);
    let again = Claim { hash: [8; 32], ..claim("ann") };
    assert_eq!(open.store.claim(again).await.unwrap(), existing(&first, ClaimedAs::Open));
    assert_eq!(open.store.claim(claim("bob")).await.unwrap(), Claimed::New);
    let mut other = claim("ann");
    other.key.agent = "other".into();
    assert_eq!(open.store.claim(other).await.unwrap(), Claimed::New);
}

#[tokio::test]
async fn of_many_at_once_one_has_it() {
    let open = Open::at(StoreUrl::Memory);
    let asked = futures::future::join_all((0..50).map(|_| open.store.claim(claim("ann")))).await;
    assert_eq!(asked.into_iter().filter(|claimed| *claimed.as_ref().unwrap() == Claimed::New).count(), 1);
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
    append.claim = Some(key("ann"));
    open.writer.push(Item::new(vec![append]));
    assert!(matches!(open.commits.recv().await, Some(Commit::Done(_))));
    assert_eq!(open.store.claim(claim("ann")).await.unwrap(), existing(&first, ClaimedAs::Task));
    open.close();
    let again = Open::at(url);
    assert_eq!(again.store.claim(claim("ann")).await.unwrap(), existing(&first, ClaimedAs::Task));
}

#[tokio::test]
async fn an_open_claim_of_a_process_that_is_gone_may_be_taken() {
    let (_dir, url) = place();
    let open = Open::at(url.clone());
    open.store.claim(claim("ann")).await.unwrap();
    open.close();
    let again = Open::at(url);
    let second = claim("ann");
    assert_eq!(again.store.claim(second.clone()).await.unwrap(), Claimed::New);
    assert_eq!(again.store.claim(claim("ann")).await.unwrap(), existing(&second, ClaimedAs::Open));
}

#[tokio::test]
async fn a_key_is_forgotten_after_a_day() {
    let (dir, url) = place();
    let open = Open::at(url);
    let first = claim("ann");
    open.store.claim(first.clone()).await.unwrap();
    let age = |by_us: i64| {
        let conn = rusqlite::Connection::open(dir.path().join("tricord.db")).unwrap();
        conn.execute("UPDATE claim SET created_us = created_us - ?1", [by_us]).unwrap();
    };
    let hour = 3_600_000_000;
    age(23 * hour);
    assert_eq!(open.store.claim(claim("ann")).await.unwrap(), existing(&first, ClaimedAs::Open));
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
