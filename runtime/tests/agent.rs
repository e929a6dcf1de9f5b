//! What an agent sees of its context: originals slice by slice, the status page by page, and refusals that say what works.

use fold_runtime::agent::{
    Action, Brief, Detail, Id, Ids, PAGE_CHARS, Peek, Reboundary, Refusal, Reply, StatusPage, act, parse_peek_line, peek, status,
};
use fold_runtime::config::Settings;
use fold_runtime::journal::{Digest, Entry};
use fold_runtime::ports::{ObjectStore, StoreError};
use fold_runtime::session::{COMMIT_RECORD, DECISION, Decision, Draft, Moment, Origin, Place, Session};
use proptest::prelude::*;
use said::{entry, small, spoken, written};
use std::collections::BTreeMap;

mod said;

const ROOMY: u64 = 1_000_000;

fn json(text: &str) -> String {
    serde_json::to_string(text).expect("a string")
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
    fn no_arguments_make_the_parser_panic_and_every_refusal_is_a_call_itself(text in "(\\{\"action\":\"(peek|status|peak|pin|brief|reboundary|unmark|expand|refold)\",)?(\"(ids?|at|text)\":\"a\",?){0,2}\\PC{0,30}\\}?") {
        if let Err(refusal) = Action::parse(&text) {
            prop_assert_eq!(Action::parse(&refusal.call.call()), Ok(refusal.call));
        }
    }
}

fn works(session: &Session, refusal: &Refusal, room: u64) {
    assert!(act(session, &refusal.call, None, room).is_ok(), "{refusal}");
    assert_eq!(Action::parse(&refusal.call.call()), Ok(refusal.call.clone()));
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

/// The entries that a reply asks for, as the host writes them.
fn appended(reply: &Reply, from: usize) -> Vec<Entry> {
    assert!(reply.drafts.iter().all(|draft| matches!(draft, Draft::Custom { custom_type, .. } if [DECISION, COMMIT_RECORD].contains(custom_type))));
    written(&reply.drafts, from)
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn pin(of: &[&str]) -> Action {
    Action::Pin(Ids { ids: ids(of) })
}

fn unpin(of: &[&str]) -> Action {
    Action::Unpin(Ids { ids: ids(of) })
}

fn unmark(of: &[&str]) -> Action {
    Action::Unmark(Ids { ids: ids(of) })
}

fn brief(id: &str, text: &str) -> Action {
    Action::Brief(Brief { id: id.to_owned(), text: text.to_owned() })
}

fn reboundary(id: &str, at: &[&str]) -> Action {
    Action::Reboundary(Reboundary { id: id.to_owned(), at: ids(at) })
}

fn does(session: &Session, action: &Action) -> Reply {
    act(session, action, None, ROOMY).expect("carried out")
}

fn refuses(session: &Session, action: &Action) -> Refusal {
    let refusal = act(session, action, None, ROOMY).expect_err("refused");
    works(session, &refusal, ROOMY);
    refusal
}

/// The branch after the call, which is carried out.
fn after(branch: &[Entry], action: &Action) -> Vec<Entry> {
    let reply = does(&small(branch), action);
    [branch, &appended(&reply, branch.len())].concat()
}

/// What a decision in the journal names.
fn names(decision: &Entry, field: &str) -> Vec<String> {
    let line: serde_json::Value = serde_json::from_str(decision.line()).expect("JSON");
    line["data"][field].as_array().map_or(Vec::new(), |ids| ids.iter().map(|id| id.as_str().expect("an id").to_owned()).collect())
}

fn place<'a>(session: &'a Session, fold: &str) -> Place<'a> {
    session.forest().into_iter().find(|view| view.id == fold).expect("a fold").place
}

/// Whether what was asked for is so now.
fn counts(action: &Action, decisions: &[Entry], session: &Session) {
    let listed = |field| decisions.iter().flat_map(|decision| names(decision, field)).collect::<Vec<_>>();
    let (units, folds) = (listed("units"), listed("folds"));
    let (pins, pending) = (session.pins(), session.pending());
    let mark = |units: &[String]| pending.iter().find(|mark| mark.units == units);
    match action {
        Action::Pin(_) => {
            assert!(units.iter().all(|id| pins.units.contains(&id.as_str())) && folds.iter().all(|id| pins.folds.contains(&id.as_str())));
            assert!(units.len() + folds.len() > 0 && pins.tokens <= pins.cap, "{pins:?}");
        }
        Action::Unpin(_) => {
            assert!(!units.iter().any(|id| pins.units.contains(&id.as_str())) && !folds.iter().any(|id| pins.folds.contains(&id.as_str())));
        }
        Action::Unmark(_) => {
            assert!(session.withdrawn() >= units.len() && !units.is_empty());
            assert!(pending.iter().all(|mark| !mark.units.iter().any(|unit| units.iter().any(|id| id == unit))));
        }
        Action::Brief(Brief { text, .. }) => {
            let mark = mark(&units).expect("the same mark");
            assert!(mark.origin == Origin::Agreed && mark.briefed);
            if mark.freed.is_some() {
                let Decision::Commit(commit) = session.boundary(Moment::Asked) else { panic!("a commit") };
                let says = |draft: &Draft| matches!(draft, Draft::Custom { data, .. } if data.contains(&format!(r#""brief":{}"#, json(text))));
                assert!(says(&commit.drafts[0]));
            }
        }
        Action::Expand(Id { id }) => assert_eq!(place(session, id), Place::Open),
        Action::Refold(Id { id }) => assert!(matches!(place(session, id), Place::Root | Place::Within(_))),
        Action::Reboundary(Reboundary { id, at }) => {
            let dissolved = session.hidden(id).is_some();
            assert!(!dissolved || place(session, id) == Place::Dissolved);
            let cuts = &decisions[usize::from(dissolved)..];
            assert!(cuts.len() > 1 && cuts.len() <= at.len() + 1);
            for decision in cuts {
                let mark = mark(&names(decision, "units")).expect("a mark of its own");
                assert!(mark.origin == Origin::Agreed && !mark.briefed);
            }
        }
        Action::Peek(_) | Action::Status(_) => assert!(decisions.is_empty()),
    }
}

/// A call about things that the branch holds, or does not.
fn call(kind: usize, picks: &[usize], length: usize, branch: &[Entry], session: &Session) -> Action {
    let folds = session.folds().map(|(id, _)| id.to_owned());
    let known: Vec<String> = branch.iter().map(|entry| entry.id().to_owned()).chain(folds).chain(["nowhere".to_owned(), String::new()]).collect();
    let marked: Vec<String> = session.pending().iter().flat_map(|mark| &mark.units).map(|unit| (*unit).to_owned()).collect();
    // Half of the picks are of what waits for a commit, where most decisions are possible at all.
    let pick = |&n: &usize| match marked.get(n / 2 % marked.len().max(1)) {
        Some(unit) if n.is_multiple_of(2) => unit.clone(),
        _ => known[n / 2 % known.len()].clone(),
    };
    let picked: Vec<String> = picks.iter().map(pick).collect();
    let id = picked.first().cloned().unwrap_or_default();
    let others = session.pending().into_iter().find(|mark| mark.units.contains(&id.as_str()));
    let inner = || others.as_ref().map_or(Vec::new(), |mark| mark.units.iter().skip(1).step_by(2).map(|unit| (*unit).to_owned()).collect());
    let fold = |n: Option<&usize>| {
        let folds: Vec<&str> = session.folds().map(|(id, _)| id).collect();
        folds.get(n.copied().unwrap_or(0) % folds.len().max(1)).map_or_else(|| id.clone(), |fold| (*fold).to_owned())
    };
    match kind % 11 {
        7 => Action::Expand(Id { id: fold(picks.first()) }),
        8 => Action::Refold(Id { id: fold(picks.first()) }),
        9 => {
            let id = fold(picks.first());
            let inside: Vec<String> = session.hidden(&id).unwrap_or_default().into_iter().map(str::to_owned).collect();
            Action::Reboundary(Reboundary { id, at: inside.into_iter().skip(1).step_by(2).collect() })
        }
        0 => Action::Pin(Ids { ids: picked }),
        1 => Action::Unpin(Ids { ids: session.pins().units.iter().map(|unit| (*unit).to_owned()).chain(picked.into_iter().skip(1)).collect() }),
        2 => Action::Brief(Brief { id, text: ["all is well\n", "é🦀 ", " ", "⟦x", "\r"][length % 5].repeat(length / 5) }),
        3 => Action::Reboundary(Reboundary { id, at: picked[1.min(picked.len())..].to_vec() }),
        4 => Action::Reboundary(Reboundary { id, at: inner() }),
        5 => Action::Unmark(Ids { ids: picked }),
        6 => Action::Peek(Peek::of(&id)),
        _ => Action::Status(StatusPage { detail: Detail::Marks, page: length % 3 }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_decision_counts_and_moves_nothing_or_is_refused_with_a_call_that_works(
        words in prop::collection::vec((prop::sample::select("uuaabbbbBBcsike".chars().collect::<Vec<_>>()), prop_oneof![0_usize..90, 900_usize..4_000]), 1..20),
        calls in prop::collection::vec((0_usize..11, prop::collection::vec(0_usize..500, 0..4), 0_usize..300), 1..7),
        commit_after in 0_usize..8,
        room in prop_oneof![0_u64..2_000, Just(ROOMY)],
    ) {
        let mut branch = spoken(&words);
        for (n, (kind, picks, length)) in calls.iter().enumerate() {
            if n == commit_after && let Decision::Commit(commit) = small(&branch).boundary(Moment::Asked) {
                branch.extend(written(&commit.drafts, branch.len()));
                branch.extend(spoken(&[('b', 10), ('b', 10)]).into_iter().map(|said| entry(&said.line().replace("\"id\":\"", "\"id\":\"new-"))));
            }
            let mut session = small(&branch);
            let action = call(*kind, picks, *length, &branch, &session);
            match act(&session, &action, None, room) {
                Err(refusal) => works(&session, &refusal, room),
                Ok(reply) => {
                    let shown = (session.shown(), session.occupancy(), session.index_bytes());
                    let decisions = appended(&reply, branch.len());
                    decisions.iter().for_each(|decision| session.observe(decision));
                    let turns = decisions.first().is_some_and(|first| first.line().contains(COMMIT_RECORD));
                    prop_assert!(turns || (session.shown(), session.occupancy(), session.index_bytes()) == shown);
                    counts(&action, &decisions, &session);
                    branch.extend(decisions);
                    let reopened = small(&branch);
                    prop_assert_eq!(reopened.pending(), session.pending());
                }
            }
        }
    }
}

/// Four batches of 1,000 bytes, two of which make a mark, an answer behind each.
fn pairs() -> Vec<Entry> {
    spoken(&[('u', 9), ('b', 1_000), ('b', 1_000), ('b', 1_000), ('b', 1_000), ('a', 9)])
}

#[test]
fn a_result_stands_for_its_batch_and_the_open_batch_can_be_pinned_too() {
    let branch = spoken(&[('u', 9), ('B', 900), ('B', 900)]);
    let pinned = after(&branch, &pin(&["r1-1", "r2-0", "a2"]));
    assert_eq!(small(&pinned).pins().units, ["a1", "a2"]);
    // Held as soon as it is ripe.
    let pinned = [&pinned[..], &spoken(&[('a', 9)])].concat();
    assert_eq!((small(&pinned).held().0, small(&pinned).marks()), (2, 0));
    let free = after(&pinned, &unpin(&["r2-1", "r1-0"]));
    assert_eq!((small(&free).held().0, small(&free).marks()), (0, 2));
}

#[test]
fn one_id_that_cannot_be_pinned_leaves_all_of_them_unpinned_and_the_others_are_proposed() {
    let branch = after(&pairs(), &pin(&["a1"]));
    let refusal = refuses(&small(&branch), &pin(&["a2", "r1-0", "nowhere"]));
    assert!(refusal.subject == "r1-0" && refusal.rule.contains("pinned already"), "{refusal}");
    assert_eq!(refusal.call, pin(&["a2"]));
    assert!(refuses(&small(&branch), &unpin(&["a2"])).rule.contains("not pinned"));
    assert!(refuses(&small(&branch), &pin(&[])).rule.contains("names nothing"));
}

#[test]
fn pins_take_at_most_a_quarter_of_the_budget_and_what_still_fits_is_proposed() {
    let branch = spoken(&[('u', 9), ('b', 9_000), ('b', 9_000), ('b', 9_000), ('a', 9)]);
    let refusal = refuses(&small(&branch), &pin(&["a1", "a2", "a3"]));
    assert!(refusal.rule.contains("at most 5000, a quarter of the budget"), "{refusal}");
    assert_eq!(refusal.call, pin(&["a1", "a2"]));
    let pinned = after(&branch, &refusal.call);
    assert_eq!(refuses(&small(&pinned), &pin(&["a3"])).call, Action::Status(StatusPage::default()));
    // A smaller model: what is pinned stays, no more is taken.
    let smaller = Session::open(&pinned, &Settings::default(), 10_000).expect("a session");
    assert!(smaller.pins().units.len() == 2 && smaller.pins().tokens > smaller.pins().cap);
    assert!(refuses(&smaller, &pin(&["u0"])).rule.contains("at most 2500"));
}

#[test]
fn what_a_fold_hides_is_not_pinned_and_its_root_is() {
    let mut branch = spoken(&[('u', 9), ('b', 3_000), ('b', 3_000), ('b', 3_000), ('a', 9)]);
    let Decision::Commit(commit) = small(&branch).boundary(Moment::Asked) else { panic!("a commit") };
    assert!(commit.parents > 0);
    branch.extend(written(&commit.drafts, branch.len()));
    let session = small(&branch);
    let root = session.forest()[0].id.to_owned();
    let child = session.children(&root).expect("a parent")[0].to_owned();
    let refusal = refuses(&session, &pin(&["r1-0"]));
    assert!(refusal.rule.contains(&child) && refusal.rule.contains(&root), "{refusal}");
    assert_eq!(refusal.call, Action::Expand(Id { id: root.clone() }));
    assert_eq!(refuses(&session, &pin(&[&child])).call, pin(&[&root]));
    assert_eq!(small(&after(&branch, &pin(&[&root]))).pins().folds, [&root]);
}

#[test]
fn a_brief_is_measured_when_it_is_supplied_and_the_fold_says_it() {
    let branch = pairs();
    let session = small(&branch);
    for (text, rule) in [
        (" \n", "blank"),
        ("a ⟧ b", "bracket"),
        ("bell\u{7}", "control character"),
        (&"x".repeat(401) as &str, "401 characters; at most 400"),
        (&"🦀".repeat(200), "800 bytes; at most"),
    ] {
        let refusal = refuses(&session, &brief("r1-0", text));
        assert!(refusal.rule.contains(rule), "{refusal}");
        assert_eq!(matches!(refusal.call, Action::Brief(_)), !text.trim().is_empty(), "{refusal}");
    }
    let branch = after(&branch, &brief("r2-0", "first"));
    let branch = after(&branch, &brief("a1", "both files are fine\nnothing is open"));
    let Decision::Commit(commit) = small(&branch).boundary(Moment::Asked) else { panic!("a commit") };
    let says = |draft: &Draft| matches!(draft, Draft::Custom { data, .. } if data.contains(r#""brief":"both files are fine\nnothing is open""#));
    assert!(says(&commit.drafts[0]));
}

#[test]
fn a_mark_is_cut_anew_at_whole_units() {
    let branch = pairs();
    let session = small(&branch);
    assert_eq!(session.pending()[0].units, ["a1", "a2"]);
    assert_eq!(refuses(&session, &reboundary("a1", &["r2-0"])).call, reboundary("a1", &["a2"]));
    assert!(refuses(&session, &reboundary("a1", &["a1"])).rule.contains("begins there already"));
    assert!(refuses(&session, &reboundary("a1", &["a3"])).rule.contains("2 units (a1, a2)"));
    let again = small(&after(&branch, &reboundary("r2-0", &["a2"])));
    let cuts: Vec<_> = again.pending().into_iter().map(|mark| (mark.units, mark.origin)).collect();
    assert_eq!(cuts[..2], [(vec!["a1"], Origin::Agreed), (vec!["a2"], Origin::Agreed)]);
}

#[test]
fn a_part_without_anything_that_could_carry_a_placeholder_is_refused() {
    let branch = spoken(&[('u', 9), ('a', 900), ('b', 900), ('a', 9)]);
    let session = small(&branch);
    let refusal = refuses(&session, &reboundary("a1", &["a2"]));
    assert!(refusal.subject == "a1" && refusal.rule.contains("carry a placeholder"), "{refusal}");
}

#[test]
fn marks_that_were_withdrawn_are_named_and_held() {
    let branch = after(&pairs(), &unmark(&["r3-0", "a1"]));
    let session = small(&branch);
    assert_eq!((session.marks(), session.withdrawn(), session.held().0), (0, 4, 4));
    assert!(refuses(&session, &unmark(&["a1"])).rule.contains("withdrawn until the next commit"));
    let page = status(&session, StatusPage::default()).expect("a page");
    assert!(page.contains("withdrawn: 4 units"), "{page}");
}

#[test]
fn the_status_tells_what_was_decided() {
    let branch = after(&after(&pairs(), &pin(&["u0"])), &brief("a3", "fine"));
    let session = small(&branch);
    let page = status(&session, StatusPage::default()).expect("a page");
    assert!(
        page.contains("pinned: 1 unit and 0 folds, with what is expanded 3 of at most 5000 tokens: u0")
            && page.contains("agreed cuts: 1, 1 of them pending"),
        "{page}"
    );
    let marks = status(&session, StatusPage { detail: Detail::Marks, page: 1 }).expect("a page");
    assert!(marks.contains("· agreed, brief supplied · 2 units") && marks.contains("units a3, a4") && marks.contains("· walk ·"), "{marks}");
}
