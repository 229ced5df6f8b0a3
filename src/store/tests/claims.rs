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

/// Claims the key for `owner`, and answers with a message.
fn answered(store: &Store, owner: &str) -> Claim {
    let claim = claim(owner);
    assert_eq!(wait(store.claim(claim.clone())).unwrap(), Claimed::New);
    wait(store.end_claim(claim.key.clone(), ClaimEnd::Message(vec![1]))).unwrap();
    claim
}

pub(super) fn a_key_is_taken_once_in_each_scope(kind: Kind) {
    let open = kind.at(StoreUrl::memory());
    let first = answered(&open.store, "ann");
    let again = Claim { hash: [8; 32], ..claim("ann") };
    assert_eq!(wait(open.store.claim(again)).unwrap(), existing(&first, ClaimedAs::Message(vec![1])));
    assert_eq!(wait(open.store.claim(claim("bob"))).unwrap(), Claimed::New);
    let mut other = claim("ann");
    other.key.agent = "other".into();
    assert_eq!(wait(open.store.claim(other)).unwrap(), Claimed::New);
}

pub(super) fn a_message_is_kept_as_it_was_given(kind: Kind) {
    let open = kind.at(StoreUrl::memory());
    let first = claim("ann");
    wait(open.store.claim(first.clone())).unwrap();
    wait(open.store.end_claim(key("ann"), ClaimEnd::Message(vec![1, 0, 2]))).unwrap();
    let found = wait(open.store.claim(claim("ann"))).unwrap();
    assert_eq!(found, existing(&first, ClaimedAs::Message(vec![1, 0, 2])));
    // What was answered is not given back.
    wait(open.store.end_claim(key("ann"), ClaimEnd::Release)).unwrap();
    assert_eq!(wait(open.store.claim(claim("ann"))).unwrap(), found);
}

pub(super) fn a_key_given_back_is_free(kind: Kind) {
    let open = kind.at(StoreUrl::memory());
    wait(open.store.claim(claim("ann"))).unwrap();
    wait(open.store.end_claim(key("ann"), ClaimEnd::Release)).unwrap();
    assert_eq!(wait(open.store.claim(claim("ann"))).unwrap(), Claimed::New);
}

pub(super) fn a_task_makes_the_claim_good_and_survives_a_restart(kind: Kind) {
    let (_dir, url) = place();
    let mut open = kind.at(url.clone());
    let first = claim("ann");
    wait(open.store.claim(first.clone())).unwrap();
    let mut append = new_task(&open.store, "ann", "c", TaskState::Working, 1);
    append.new.as_mut().unwrap().id = first.reserve;
    append.claims = vec![key("ann")];
    open.writer.push(Item::new(vec![append]));
    assert!(matches!(open.commits.blocking_recv(), Some(Commit::Done(_))));
    assert_eq!(wait(open.store.claim(claim("ann"))).unwrap(), existing(&first, ClaimedAs::Task));
    open.close();
    let again = kind.at(url);
    assert_eq!(wait(again.store.claim(claim("ann"))).unwrap(), existing(&first, ClaimedAs::Task));
}

pub(super) fn a_claim_that_was_never_ended_may_be_taken_though_its_task_is_there(kind: Kind) {
    let (_dir, url) = place();
    let mut open = kind.at(url.clone());
    // A turn of a task that exists: its being there says nothing of whether the turn was taken.
    let append = new_task(&open.store, "ann", "c", TaskState::InputRequired, 1);
    let turn = Claim { reserve: append.new.as_ref().unwrap().id, ..claim("ann") };
    open.writer.push(Item::new(vec![append]));
    assert!(matches!(open.commits.blocking_recv(), Some(Commit::Done(_))));
    assert_eq!(wait(open.store.claim(turn.clone())).unwrap(), Claimed::New);
    assert_eq!(wait(open.store.claim(turn.clone())).unwrap(), Claimed::New);
    open.close();
    let again = kind.at(url);
    assert_eq!(wait(again.store.claim(turn)).unwrap(), Claimed::New);
}

pub(super) fn a_closed_store_answers(kind: Kind) {
    let open = kind.at(StoreUrl::memory());
    open.writer.close();
    assert_eq!(wait(open.store.claim(claim("ann"))), Err(StoreError::Closed));
}
