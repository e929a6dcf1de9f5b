//! Sessions that are opened again and forked.

use crate::talk::{SPANS, Talk, words};
use crate::{must, seen_to_fail};
use fold_models::host::{Host, from_scratch};
use fold_runtime::agent::{Peek, peek};
use fold_runtime::journal::{Entry, Kind};
use std::collections::BTreeSet;

/// claude-code#43657, #67497, #66005, #34629, multica#6008: a session that is resumed shows something else, and the cache is lost. Here the
/// process ends between a commit and the edits that carry it out.
#[test]
fn the_first_request_after_a_resume_begins_with_the_bytes_of_the_last_one_before_it() {
    seen_to_fail("differs", |planted| {
        let mut talk = Talk::new(SPANS, 20_000);
        talk.asks("go");
        let commit = talk.until_due(1_500);
        talk.writes(commit.records());
        must(!talk.session().overlay().is_empty(), || "nothing is promised".to_owned())?;
        let sent: Vec<u64> = talk.host.window().iter().map(|shown| shown.wire).collect();
        // Another process.
        talk.host = Host::open(2, 0, talk.host.token_model().clone(), talk.host.journal())?;
        if !planted {
            talk.lays_over();
        }
        talk.asks("where were we?");
        let now: Vec<u64> = talk.host.window().iter().map(|shown| shown.wire).collect();
        let same = sent.iter().zip(&now).take_while(|(before, now)| before == now).count();
        must(same == sent.len(), || format!("message {same} of {} differs", sent.len()))
    });
}

/// A session after two commits.
struct Forked {
    talk: Talk,
    /// The entry between the commits where it is forked.
    at: String,
    /// The folds of the first commit.
    before: BTreeSet<String>,
    /// A fold of the second one that hides entries on both sides of the fork.
    straddles: String,
}

fn forked() -> Result<Forked, String> {
    let mut talk = Talk::new(SPANS, 20_000);
    talk.asks("go");
    let first = talk.until_due(1_500);
    talk.writes(&first.drafts);
    let before: BTreeSet<String> = talk.session().folds().map(|(id, _)| id.to_owned()).collect();
    let from = talk.host.branch().len();
    let second = talk.until_due(1_500);
    talk.writes(&second.drafts);
    let session = talk.session();
    for (fold, _) in session.folds().filter(|(id, _)| !before.contains(*id)) {
        let hidden = session.hidden(fold).ok_or("no fold")?;
        let places: Vec<usize> = hidden.iter().filter_map(|id| talk.host.position(id)).collect();
        let (Some(&least), Some(&most)) = (places.iter().min(), places.iter().max()) else { continue };
        if least > from && session.is_shown(fold) {
            let at = talk.host.branch()[least.midpoint(most)].id().to_owned();
            return Ok(Forked { at, before, straddles: fold.to_owned(), talk: talk.clone() });
        }
    }
    Err("no fold lies where the session could be forked".to_owned())
}

/// The same branch, whose messages have lost the ids that they were written with.
fn renamed(branch: &[Entry]) -> Vec<Entry> {
    let rename = |entry: &Entry| match entry.kind() {
        Kind::Message(_) => Entry::parse(&entry.line().replacen(&format!("\"id\":\"{}\"", entry.id()), &format!("\"id\":\"m-{}\"", entry.id()), 1)),
        _ => Ok(entry.clone()),
    };
    branch.iter().map(|entry| rename(entry).expect("an entry")).collect()
}

/// opencode-acp#89, DCP#527, #532 and PR 589, LeXwDeX#21 (the host strips ids, so that a fold "succeeds" and the request is as it was),
/// Pi's #8990. Three folds and more, one of them across the place of the fork.
#[test]
fn a_fork_has_the_folds_that_were_made_before_it_and_no_other() {
    seen_to_fail("of the folds are there", |planted| {
        let Forked { talk, at, before, straddles } = forked()?;
        must(before.len() >= 2, || format!("only {} folds before the fork", before.len()))?;
        let fork = talk.host.fork(&at, 9)?;
        must(fork.session_id() != talk.host.session_id(), || "it is the same session".to_owned())?;
        let branch = if planted { renamed(fork.branch()) } else { fork.branch().to_vec() };
        let session = talk.seen(&branch);
        let folds: BTreeSet<String> = session.folds().map(|(id, _)| id.to_owned()).collect();
        must(!folds.contains(&straddles), || "the fold across the fork is there".to_owned())?;
        must(folds == before, || format!("{} of the folds are there, of {}", folds.len(), before.len()))?;
        let window = from_scratch(&branch, fork.token_model());
        let shows = |fold: &str| window.iter().any(|shown| shown.facts.placeholder && words(shown).contains(fold));
        must(!shows(&straddles), || "the request shows the fold across the fork".to_owned())?;
        for (root, ..) in session.roots() {
            must(shows(root), || format!("the request does not show fold {root}"))?;
        }
        for fold in &folds {
            session.recover(fold, None).map_err(|why| why.to_string())?;
            peek(&session, &Peek::of(fold), None, u64::MAX).map_err(|refused| refused.to_string())?;
        }
        crate::talk::taken(&window)
    });
}
