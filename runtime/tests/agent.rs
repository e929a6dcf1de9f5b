//! What an agent sees of its context: originals slice by slice, the status page by page, and refusals that say what works.

use fold_runtime::agent::{Action, Detail, PAGE_CHARS, Peek, Refusal, StatusPage, parse_peek_line, peek, status};
use fold_runtime::config::Settings;
use fold_runtime::journal::{Digest, Entry};
use fold_runtime::ports::{ObjectStore, StoreError};
use fold_runtime::session::{Decision, Draft, Moment, Session};
use proptest::prelude::*;
use std::collections::BTreeMap;

const ROOMY: u64 = 1_000_000;

fn json(text: &str) -> String {
    serde_json::to_string(text).expect("a string")
}

fn entry(line: &str) -> Entry {
    Entry::parse(line).expect("an entry")
}

/// A question, then batches of one call and one result that says each text, and an answer that ripens them.
fn told(texts: &[String]) -> Vec<Entry> {
    let mut lines = vec![r#"{"type":"message","id":"u","message":{"role":"user","content":"go"}}"#.to_owned()];
    for (batch, text) in texts.iter().enumerate() {
        lines.push(format!(r#"{{"type":"message","id":"a{batch}","message":{{"role":"assistant","stopReason":"toolUse","content":[{{"type":"toolCall","id":"c{batch}","name":"read","arguments":{{"path":"f{batch}"}}}}]}}}}"#));
        lines.push(format!(r#"{{"type":"message","id":"r{batch}","message":{{"role":"toolResult","toolCallId":"c{batch}","toolName":"read","content":[{{"type":"text","text":{}}}]}}}}"#, json(text)));
    }
    lines
        .push(r#"{"type":"message","id":"z","message":{"role":"assistant","stopReason":"stop","content":[{"type":"text","text":"ok"}]}}"#.to_owned());
    lines.iter().map(|line| entry(line)).collect()
}

fn open(branch: &[Entry]) -> Session {
    Session::open(branch, &Settings::default(), 20_000).expect("a session")
}

fn written(drafts: &[Draft], from: usize) -> Vec<Entry> {
    let line = |(index, draft): (usize, &Draft)| match draft {
        Draft::Custom { custom_type, data } => format!(r#"{{"type":"custom","id":"d{}","customType":"{custom_type}","data":{data}}}"#, from + index),
        Draft::ContextEdit { target, replacement } => {
            let replacement = replacement.as_ref().map_or("null".to_owned(), |content| format!("{{\"content\":{content}}}"));
            format!(r#"{{"type":"context_edit","id":"d{}","targetId":"{target}","replacement":{replacement}}}"#, from + index)
        }
    };
    drafts.iter().enumerate().map(line).map(|line| entry(&line)).collect()
}

/// The branch after the commit that its boundary decides.
fn folded(mut branch: Vec<Entry>) -> Vec<Entry> {
    let Decision::Commit(commit) = open(&branch).boundary(Moment::TurnEnd) else { panic!("a commit") };
    branch.extend(written(&commit.drafts, branch.len()));
    branch
}

fn endless(batches: usize) -> Vec<Entry> {
    told(&(0..batches).map(|batch| format!("{batch} {}", "x".repeat(8_000))).collect::<Vec<_>>())
}

/// The fold that hides a result.
fn fold_of(session: &Session, entry: &str) -> String {
    let folds = session.folds().map(|(id, _)| id.to_owned());
    folds.into_iter().find(|id| session.hidden(id).is_some_and(|hidden| hidden.contains(&entry))).expect("a fold that hides it")
}

/// The bytes of the rendering that an answer shows from its offset on, and the call that goes on, as a reader takes them.
fn read(answer: &str) -> (String, Option<Peek>) {
    let (rest, last) = answer.rsplit_once('\n').expect("a last line");
    let (peek, digest) = parse_peek_line(last).expect("a peek line");
    let Some((note, body)) = rest.split_once('\n').filter(|(note, _)| note.starts_with("⟦pi-fold peek of ")) else {
        assert_eq!(Digest::of(rest.as_bytes()), digest);
        return (rest.to_owned(), None);
    };
    let body = body.strip_suffix(note).and_then(|body| body.strip_suffix('\n')).expect("the note at both ends");
    let shown = note.split_once(": bytes ").expect("ranges").1.split_once(" of ").expect("a total").0;
    let lengths: Vec<usize> = shown
        .split(" and ")
        .map(|range| range.split_once("..").expect("a range"))
        .map(|(from, to)| to.parse::<usize>().expect("a number") - from.parse::<usize>().expect("a number"))
        .collect();
    let head = &body[..lengths[0]];
    let tail = lengths.get(1).map_or("", |tail| &body[body.len() - tail..]);
    assert_eq!(Digest::of([head, tail].concat().as_bytes()), digest);
    let next = note.split_once("go on: pi_fold_context ").map(|(_, call)| call.strip_suffix('⟧').expect("an end"));
    let next = next.map(|call| match Action::parse(call) {
        Ok(Action::Peek(next)) => next,
        other => panic!("a peek, not {other:?}"),
    });
    assert!(next.as_ref().is_none_or(|next| next.offset > peek.offset && next.bytes == peek.bytes));
    (head.to_owned(), next)
}

/// Everything behind an id, following the calls that the answers propose.
fn whole(session: &Session, first: Peek) -> String {
    let (mut all, mut next) = (String::new(), Some(first));
    while let Some(look) = next {
        assert_eq!(look.offset, all.len(), "no gap and no repetition");
        let (text, then) = read(&peek(session, &look, None, ROOMY).expect("a slice"));
        all.push_str(&text);
        next = then;
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn slices_that_follow_one_another_give_every_text_verbatim(
        seeds in prop::collection::vec("(\\PC|[\n\t⟦⟧é🦀\u{301}\u{200d}🇩\u{1b}]){1,40}", 1..4),
        bytes in 1_024_usize..6_000,
    ) {
        // The folded texts are long enough to be folded and to be cut, whatever they are made of.
        let texts: Vec<String> = (0..9).map(|batch| seeds[batch % seeds.len()].repeat(9_000 / seeds[batch % seeds.len()].len() + 1)).collect();
        let session = open(&folded(told(&texts)));
        let ids = session.folds().map(|(id, _)| id.to_owned()).collect::<Vec<_>>();
        prop_assert!(!ids.is_empty());
        for id in ids {
            let all = whole(&session, Peek { bytes, ..Peek::of(&id) });
            for entry in session.hidden(&id).expect("a fold") {
                let batch: usize = entry.trim_start_matches(['a', 'r']).parse().expect("a batch");
                prop_assert!(all.contains(&texts[batch]), "{entry} of {id}");
            }
        }
        let raw = whole(&session, Peek { bytes, ..Peek::of("r8") });
        prop_assert!(raw.contains(&texts[8]));
    }

    #[test]
    fn any_call_is_answered_or_refused_with_a_call_that_works(
        id in prop_oneof![Just("r0".to_owned()), Just("f".to_owned()), Just(String::new()), "\\PC{0,9}"],
        offset in prop_oneof![0_usize..20_000, Just(usize::MAX)],
        bytes in prop_oneof![0_usize..140_000, Just(usize::MAX)],
        room in prop_oneof![0_u64..5_000, Just(ROOMY)],
        page in prop_oneof![0_usize..3, Just(usize::MAX)],
    ) {
        let session = open(&folded(endless(8)));
        let id = if id == "f" { fold_of(&session, "r3") } else { id };
        if let Err(refusal) = peek(&session, &Peek { id, offset, bytes, ephemeral: true }, None, room) {
            works(&session, &refusal, room);
        }
        for detail in [Detail::None, Detail::Tree, Detail::Folds, Detail::Marks] {
            if let Err(refusal) = status(&session, StatusPage { detail, page }) {
                works(&session, &refusal, room);
            }
        }
    }

    #[test]
    fn no_arguments_make_the_parser_panic_and_every_refusal_is_a_call_itself(text in "(\\{\"action\":\"(peek|status|peak)\",)?\\PC{0,30}\\}?") {
        if let Err(refusal) = Action::parse(&text) {
            prop_assert_eq!(Action::parse(&refusal.call.call()), Ok(refusal.call));
        }
    }
}

fn works(session: &Session, refusal: &Refusal, room: u64) {
    match &refusal.call {
        Action::Peek(look) => assert!(peek(session, look, None, room).is_ok(), "{refusal}"),
        Action::Status(page) => assert!(status(session, *page).is_ok(), "{refusal}"),
    }
}

#[test]
fn a_peek_that_fits_is_the_rendering_and_one_line() {
    let session = open(&endless(1));
    let answer = peek(&session, &Peek::of("u"), None, ROOMY).expect("an answer");
    let (text, line) = answer.rsplit_once('\n').expect("a last line");
    assert_eq!(text, "⟦entry u · user⟧\n⟦text · 2 bytes⟧\ngo");
    assert_eq!(parse_peek_line(line), Some((Peek::of("u"), Digest::of(text.as_bytes()))));
}

#[test]
fn a_fold_shows_its_entries_at_any_depth_in_branch_order() {
    let settings = r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":2,"minFoldChars":8000}}"#;
    let settings = Settings::parse(settings).expect("valid");
    let mut branch = endless(8);
    let Decision::Commit(commit) = Session::open(&branch, &settings, 20_000).expect("a session").boundary(Moment::TurnEnd) else {
        panic!("a commit")
    };
    assert!(commit.parents > 0);
    branch.extend(written(&commit.drafts, 0));
    let session = Session::open(&branch, &settings, 20_000).expect("a session");
    let parent = session.forest()[0].id.to_owned();
    let text = whole(&session, Peek::of(&parent));
    let headers: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("⟦entry ")?.split(' ').next()).collect();
    assert_eq!(headers, session.hidden(&parent).expect("a fold"));
    assert!(headers.len() > 2 && headers.is_sorted_by_key(|id| branch.iter().position(|entry| entry.id() == *id)));
}

#[test]
fn a_damaged_original_is_refused_and_a_whole_one_beside_it_is_not() {
    let mut branch = folded(told(&(0..16).map(|batch| format!("{batch} {}", "x".repeat(4_500))).collect::<Vec<_>>()));
    let fold = fold_of(&open(&branch), "r0");
    branch[2] = entry(&branch[2].line().replace("\"text\":\"0 x", "\"text\":\"0 y"));
    let session = open(&branch);
    let refusal = peek(&session, &Peek::of(&fold), None, ROOMY).expect_err("damaged");
    assert!(refusal.rule.contains("r0") && refusal.rule.contains("differs"), "{refusal}");
    assert!(matches!(&refusal.call, Action::Peek(sound) if session.hidden(&fold).is_some_and(|hidden| hidden.contains(&sound.id.as_str()))));
    works(&session, &refusal, ROOMY);
    // The entry itself is checked too, by the fold that hides it.
    assert!(peek(&session, &Peek::of("r0"), None, ROOMY).expect_err("damaged").rule.contains("differs"));
    // With a second copy the original is shown again.
    let original = folded(told(&(0..16).map(|batch| format!("{batch} {}", "x".repeat(4_500))).collect::<Vec<_>>()));
    let copy = Copies(BTreeMap::from([(original[2].digest(), original[2].line().as_bytes().to_vec())]));
    assert!(peek(&session, &Peek::of("r0"), Some(&copy), ROOMY).expect("whole").contains("0 xxx"));
}

struct Copies(BTreeMap<Digest, Vec<u8>>);

impl ObjectStore for Copies {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), StoreError> {
        self.0.insert(digest, bytes.to_vec());
        Ok(())
    }
    fn get(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(&digest).cloned())
    }
}

#[test]
fn what_is_too_large_for_the_room_is_refused_with_a_slice_that_fits() {
    let session = open(&folded(endless(8)));
    let refusal = peek(&session, &Peek::of("r7"), None, 1_500).expect_err("no room");
    assert!(refusal.rule.contains("room for 1500"), "{refusal}");
    assert_eq!(refusal.call, Action::Peek(Peek { bytes: 4_000, ..Peek::of("r7") }));
    works(&session, &refusal, 1_500);
    assert!(peek(&session, &Peek::of("r7"), None, 10).expect_err("no room at all").call == Action::Status(StatusPage::default()));
}

#[test]
fn the_tree_has_every_fold_and_the_roots_are_those_in_context() {
    let session = open(&folded(endless(8)));
    let tree = status(&session, StatusPage { detail: Detail::Tree, page: 1 }).expect("a page");
    assert_eq!(tree.lines().count(), 1 + session.folds().count());
    let roots = status(&session, StatusPage { detail: Detail::Folds, page: 1 }).expect("a page");
    assert_eq!(roots.lines().count(), 1 + session.roots().count());
    assert!(roots.contains("r0..r0") && tree.contains("root"), "{roots}\n{tree}");
}

#[test]
fn what_the_marks_say_they_free_is_what_a_commit_frees() {
    let branch = endless(9);
    let session = open(&branch);
    let pending = session.pending();
    assert_eq!(pending.len(), session.marks());
    assert!(pending.is_sorted_by_key(|mark| std::cmp::Reverse(mark.rewrite)));
    let Decision::Commit(commit) = session.boundary(Moment::TurnEnd) else { panic!("a commit") };
    assert_eq!(commit.parents, 0);
    let freed: u64 = pending[..commit.folds].iter().map(|mark| mark.freed.expect("a leaf")).sum();
    let rounding = commit.folds as u64;
    assert!((commit.before - commit.after).abs_diff(freed) <= rounding, "{freed} of {}", commit.before - commit.after);
}

#[test]
fn long_lists_come_in_pages_that_hold_every_mark_once() {
    let branch = endless(600);
    let session = Session::open(&branch, &Settings::default(), 2_000_000).expect("a session");
    let (mut seen, mut page) = (0, 1);
    loop {
        let text = status(&session, StatusPage { detail: Detail::Marks, page }).expect("a page");
        assert!(text.chars().count() <= PAGE_CHARS);
        seen += text.lines().filter(|line| line.starts_with("mark ")).count();
        if !text.contains("go on: pi_fold_context") {
            break;
        }
        page += 1;
    }
    assert!(page > 1 && seen == session.marks(), "{seen} on {page} pages");
}
