//! Folds that are opened, closed again, dissolved, and the notice: what records promise and when a commit closes what was opened.

use crate::world::{World, lines, text};
use fold_invariants::asked::{granted, refused};
use fold_invariants::commit::{Commit, Folds};
use fold_invariants::probes::Probes;
use fold_invariants::reference::{Asked, Moment, NOTICE, Verdict, asked, decide, occupancy, overlay};
use fold_runtime::config::Settings;
use fold_runtime::journal::{Entry, Kind};
use fold_runtime::session::{COMMIT_RECORD, Decided, Draft};

const WINDOW: u64 = 20_000;

fn settings() -> Settings {
    Settings::parse(r#"{"toolFoldThreshold":0,"thresholds":{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":3,"minFoldChars":4000}}"#)
        .expect("valid options")
}

fn decided(world: &World, moment: Moment) -> Verdict {
    decide(&world.branch, &settings(), WINDOW, moment)
}

fn ask(world: &World, question: Asked<'_>) -> Result<String, &'static str> {
    asked(&world.branch, &settings(), WINDOW, question)
}

fn json(record: &str) -> serde_json::Value {
    serde_json::from_str(record).expect("JSON")
}

/// The records of a verdict, as JSON, and how many edits follow them.
fn records(verdict: &Verdict) -> (Vec<serde_json::Value>, usize) {
    let Verdict::Commit { drafts, .. } = verdict else { panic!("a commit, not {verdict:?}") };
    let data = |draft: &Draft| match draft {
        Draft::Custom { data, .. } => serde_json::from_str(data).ok(),
        _ => None,
    };
    let records: Vec<serde_json::Value> = drafts.iter().filter_map(data).collect();
    let edits = drafts.len() - records.len();
    (records, edits)
}

fn append(world: &mut World, record: &str) {
    world.entry(&format!(r#""type":"custom","customType":"{COMMIT_RECORD}","data":{record}"#));
}

fn targets(record: &serde_json::Value) -> Vec<(String, bool)> {
    let edits = record["edits"].as_array().expect("edits").iter();
    edits.map(|edit| (edit["target"].as_str().expect("an id").to_owned(), edit["sha256"].is_string())).collect()
}

/// A question and this many steps of 5,000 bytes (e1 and e2, e3 and e4, ...), folded because a person asked; and an answer.
fn folded(steps: usize) -> World {
    let mut world = World::new(1);
    world.user("do it all");
    for _ in 0..steps {
        world.step(5_000);
    }
    world.answer("done", &[]);
    world.answer("done", &[]);
    let Verdict::Commit { drafts, .. } = decided(&world, Moment::Asked) else { panic!("a commit") };
    world.apply(&drafts);
    let edits: Vec<Draft> = overlay(&world.branch).into_iter().map(|(target, replacement)| Draft::ContextEdit { target, replacement }).collect();
    world.apply(&edits);
    world.answer("done", &[]);
    world
}

/// Ids of the folds of the records on a branch, in order, and whether they contain others.
fn folds(world: &World) -> Vec<(String, bool)> {
    let is_record = |entry: &&Entry| matches!(entry.kind(), Kind::Custom { custom_type } if *custom_type == *COMMIT_RECORD);
    let data = world.branch.iter().filter(is_record).map(|entry| serde_json::from_str::<serde_json::Value>(entry.field("data").expect("data")));
    let folds = data.flat_map(|record| record.expect("JSON")["folds"].as_array().expect("folds").clone());
    folds.map(|fold| (fold["id"].as_str().expect("an id").to_owned(), fold["kind"] == "cons")).collect()
}

fn leaf(world: &World) -> String {
    folds(world).into_iter().find(|(_, is_parent)| !is_parent).expect("a leaf").0
}

fn parent(world: &World) -> String {
    folds(world).into_iter().find(|(_, is_parent)| *is_parent).expect("a parent").0
}

/// What the checkers say of the record at the end of a branch, the content of its edits being what the overlay shows.
fn checked(world: &World, probes: &mut Probes) -> Option<&'static str> {
    let record = world.branch.len() - 1;
    let position = |id: &str| world.branch.iter().position(|entry| entry.id() == id);
    let mut known = Folds::read(&world.branch[..record], &position);
    let promised: serde_json::Value = serde_json::from_str(world.branch[record].field("data").expect("data")).expect("JSON");
    let overlay = overlay(&world.branch);
    // Of a record that does not count nothing is promised, so its own contents stand for what it means.
    let own = |target: &str| world.branch[position(target).expect("on the branch")].content().raw().to_owned();
    let content = |(target, shown): (String, bool)| {
        let derived = overlay.iter().find(|(other, _)| *other == target).map(|(_, content)| content.clone());
        (target.clone(), derived.unwrap_or_else(|| shown.then(|| own(&target))))
    };
    let edits: Vec<(String, Option<String>)> = targets(&promised).into_iter().map(content).collect();
    let commit = Commit { branch: &world.branch, record, edits: &edits, settings: &settings() };
    known.commit(commit, &position, probes).err().map(|broken| broken.invariant)
}

/// What the check of the tool says of the record at the end of a branch.
fn allowed(world: &World, probes: &mut Probes) -> Option<&'static str> {
    let (record, before) = world.branch.split_last().expect("a record");
    granted(before, &settings(), WINDOW, record, probes).err().map(|broken| broken.invariant)
}

#[test]
fn a_leaf_that_is_expanded_shows_its_originals_and_closed_again_the_same_placeholder() {
    let mut world = folded(2);
    let before = world.seen().branch;
    let (id, tokens) = (leaf(&world), occupancy(&world.branch, &settings(), WINDOW));
    let opening = ask(&world, Asked::Expand(&id)).expect("a record");
    assert_eq!((json(&opening)["trigger"].as_str(), targets(&json(&opening))), (Some("expand"), vec![("e2".to_owned(), true)]));
    append(&mut world, &opening);
    let mut probes = Probes::default();
    assert_eq!((checked(&world, &mut probes), allowed(&world, &mut probes)), (None, None));
    assert_eq!(overlay(&world.branch), [("e2".to_owned(), Some(world.branch[2].content().raw().to_owned()))]);
    assert!(occupancy(&world.branch, &settings(), WINDOW) > tokens);
    assert_eq!(ask(&world, Asked::Expand(&id)), Err("not shown"));
    let closing = ask(&world, Asked::Refold(&id)).expect("a record");
    append(&mut world, &closing);
    assert_eq!((checked(&world, &mut probes), allowed(&world, &mut probes)), (None, None));
    let shown = |branch: &[Entry]| fold_runtime::window::projection(branch)[2].messages.clone().len();
    assert_eq!((shown(&before), json(&closing)["closes"][0].as_str()), (1, Some(id.as_str())));
    let old = before.iter().rfind(|entry| matches!(entry.kind(), Kind::ContextEdit { target, .. } if **target == *"e2")).expect("an edit");
    let content = old.replacement().map(|content| content.raw().to_owned());
    assert_eq!(overlay(&world.branch), [("e2".to_owned(), content)], "same id, same bytes");
    assert_eq!((probes.count("leaf expanded"), probes.count("refolded because it was asked for")), (1, 1));
}

#[test]
fn a_parent_that_is_expanded_shows_its_children_and_they_can_be_expanded_in_it() {
    let mut world = folded(4);
    let mut probes = Probes::default();
    let outer = parent(&world);
    let opening = ask(&world, Asked::Expand(&outer)).expect("a record");
    append(&mut world, &opening);
    assert_eq!((checked(&world, &mut probes), allowed(&world, &mut probes)), (None, None));
    // Results of the three steps with the placeholders of the children, and the calls that the parent had hidden.
    assert!(targets(&json(&opening)).iter().all(|(_, shown)| *shown) && targets(&json(&opening)).len() >= 5, "{opening}");
    let inner = leaf(&world);
    let within = ask(&world, Asked::Expand(&inner)).expect("a record");
    append(&mut world, &within);
    assert_eq!((checked(&world, &mut probes), allowed(&world, &mut probes)), (None, None));
    let closing = ask(&world, Asked::Refold(&outer)).expect("a record");
    append(&mut world, &closing);
    assert_eq!((checked(&world, &mut probes), allowed(&world, &mut probes)), (None, None));
    assert_eq!((ask(&world, Asked::Refold(&inner)), ask(&world, Asked::Expand(&inner))), (Err("not open"), Err("not shown")));
    assert!(ask(&world, Asked::Expand(&outer)).is_ok());
    for probe in ["parent expanded", "fold expanded inside an expanded fold", "refolded with an expanded fold in it"] {
        assert_eq!(probes.count(probe), 1, "{probe}");
    }
}

#[test]
fn what_the_law_refuses_is_refused() {
    let world = folded(2);
    let id = leaf(&world);
    let with = |change: &dyn Fn(&mut World)| {
        let mut world = world.clone();
        change(&mut world);
        ask(&world, Asked::Expand(&id)).err()
    };
    let foreign =
        |world: &mut World| drop(world.entry(&format!(r#""type":"context_edit","targetId":"e1","replacement":{{"content":[{}]}}"#, text("x"))));
    let pin = |world: &mut World| drop(world.decision(&Decided::Pin { units: Vec::new(), folds: vec![id.clone()] }));
    let compact = |world: &mut World| drop(world.entry(r#""type":"compaction","summary":"so far","firstKeptEntryId":"e3","tokensBefore":1"#));
    let damage = |world: &mut World| world.branch[2] = Entry::parse(&world.branch[2].line().replace("a line", "b line")).expect("an entry");
    let fill = |world: &mut World| drop(world.user(&lines(60_000)));
    let keep = |world: &mut World| {
        let unit = world.custom(&lines(19_000));
        world.decision(&Decided::Pin { units: vec![unit], folds: Vec::new() });
    };
    assert_eq!(with(&|_| {}), None);
    assert_eq!((with(&foreign), with(&pin), with(&compact), with(&damage)), (Some("foreign"), Some("pinned"), Some("not shown"), Some("changed")));
    assert_eq!((with(&fill), with(&keep)), (Some("too large"), Some("over the cap")));
    assert_eq!((ask(&world, Asked::Refold(&id)), ask(&world, Asked::Expand("f_0"))), (Err("not open"), Err("unknown")));
    let mut probes = Probes::default();
    let mut said = |question: Asked<'_>| refused(&world.branch, &settings(), WINDOW, question, &mut probes).err().map(|broken| broken.invariant);
    assert_eq!((said(Asked::Refold(&id)), said(Asked::Expand(&id)), said(Asked::Dissolve(&id))), (None, Some("no_op"), None));
}

#[test]
fn a_record_that_the_tool_had_to_refuse_or_that_says_something_else_is_broken() {
    let world = folded(2);
    let (id, mut probes) = (leaf(&world), Probes::default());
    let opening = ask(&world, Asked::Expand(&id)).expect("a record");
    let mut pinned = world.clone();
    pinned.decision(&Decided::Pin { units: Vec::new(), folds: vec![id.clone()] });
    append(&mut pinned, &opening);
    assert_eq!(allowed(&pinned, &mut probes), Some("no_op"));
    let mut said = |change: &dyn Fn(&mut serde_json::Value)| {
        let (mut world, mut record) = (world.clone(), json(&opening));
        change(&mut record);
        append(&mut world, &record.to_string());
        (checked(&world, &mut probes), allowed(&world, &mut probes))
    };
    assert_eq!(said(&|_| {}), (None, Some("band")), "its keys in another order");
    assert_eq!(said(&|record| record["edits"] = serde_json::json!([])), (Some("conservation"), Some("band")), "nothing is shown");
    assert_eq!(said(&|record| record["edits"][0] = serde_json::json!({"target": "e2"})), (Some("conservation"), Some("band")), "it is omitted");
    assert_eq!(said(&|record| record["bound"] = 1.into()), (None, Some("band")), "another bound");
    assert_eq!(said(&|record| record["trigger"] = "refold".into()), (Some("nesting"), Some("band")), "another trigger");
    let nobody = |record: &mut serde_json::Value| record["opens"] = serde_json::json!(["f_000000000000"]);
    assert_eq!(said(&nobody), (Some("nesting"), Some("no_op")), "a fold that is not there");
    let closes = |record: &mut serde_json::Value| {
        record["closes"] = record["opens"].take();
        record.as_object_mut().expect("an object").remove("opens");
        record["trigger"] = "refold".into();
    };
    assert_eq!(said(&closes), (Some("nesting"), Some("no_op")), "it is not open");
}

#[test]
fn an_expanded_fold_is_closed_by_the_first_commit_after_eight_answers_and_a_pin_keeps_it_open() {
    let mut world = folded(2);
    let id = leaf(&world);
    let opening = ask(&world, Asked::Expand(&id)).expect("a record");
    append(&mut world, &opening);
    for _ in 0..7 {
        world.step(600);
    }
    let closes = |world: &World, moment| match decided(world, moment) {
        Verdict::Commit { refolded, .. } => refolded,
        _ => 0,
    };
    assert_eq!((closes(&world, Moment::Asked), closes(&world, Moment::Refused)), (0, 1), "whoever cannot wait closes it at once");
    world.answer("done", &[]);
    let verdict = decided(&world, Moment::Asked);
    let (records, edits) = records(&verdict);
    assert_eq!((records.len(), edits, records[0]["closes"][0].as_str()), (2, 0, Some(id.as_str())), "{records:?}");
    assert_eq!((records[0]["trigger"].as_str(), records[1]["trigger"].as_str()), (Some("refold"), Some("person")));
    let mut pinned = world.clone();
    pinned.decision(&Decided::Pin { units: Vec::new(), folds: vec![id.clone()] });
    assert_eq!((closes(&pinned, Moment::Asked), ask(&pinned, Asked::Refold(&id)).err()), (0, Some("pinned")));
    let mut edited = world.clone();
    edited.entry(r#""type":"context_edit","targetId":"e2","replacement":{"content":"else"}"#);
    assert_eq!((closes(&edited, Moment::Asked), ask(&edited, Asked::Refold(&id)).err()), (0, Some("foreign")));
    let mut compacted = world.clone();
    compacted.entry(r#""type":"compaction","summary":"so far","firstKeptEntryId":"e3","tokensBefore":1"#);
    assert_eq!((closes(&compacted, Moment::Asked), ask(&compacted, Asked::Refold(&id)).err()), (0, Some("not open")));
}

#[test]
fn where_nothing_else_can_be_done_the_record_that_closes_goes_alone() {
    let mut world = folded(2);
    let id = leaf(&world);
    let opening = ask(&world, Asked::Expand(&id)).expect("a record");
    append(&mut world, &opening);
    for _ in 0..9 {
        world.answer("done", &[]);
    }
    let verdict = decided(&world, Moment::Asked);
    let Verdict::Commit { trigger, refolded, before, after, .. } = &verdict else { panic!("a commit, not {verdict:?}") };
    assert_eq!((trigger.as_str(), *refolded, records(&verdict).0.len()), ("refold", 1, 1));
    assert!(after < before);
}

#[test]
fn an_open_fold_is_held_and_a_commit_that_touches_it_is_broken() {
    let mut world = folded(2);
    let id = leaf(&world);
    let opening = ask(&world, Asked::Expand(&id)).expect("a record");
    append(&mut world, &opening);
    let open = world.clone();
    let clip = |world: &mut World| {
        let record = serde_json::json!({"v": 1, "trigger": "band", "bound": 400, "folds": [], "edits": [{"target": "e2"}]});
        append(world, &record.to_string());
    };
    clip(&mut world);
    assert_eq!(checked(&world, &mut Probes::default()), Some("held"));
    let Verdict::Deferred(why) = decided(&open, Moment::Asked) else { panic!("nothing can be folded") };
    assert_eq!(why, "nothing but held");
}

#[test]
fn a_dissolved_fold_gives_its_units_back_and_the_same_fold_may_be_made_again() {
    let mut world = folded(2);
    let id = leaf(&world);
    let record = ask(&world, Asked::Dissolve(&id)).expect("a record");
    append(&mut world, &record);
    let mut probes = Probes::default();
    assert_eq!((checked(&world, &mut probes), allowed(&world, &mut probes)), (None, None));
    assert_eq!((ask(&world, Asked::Expand(&id)).err(), ask(&world, Asked::Refold(&id)).err()), (Some("not shown"), Some("not open")));
    world.answer("done", &[]);
    let again = records(&decided(&world, Moment::Asked)).0;
    assert_eq!(again[0]["folds"][0]["id"].as_str(), Some(id.as_str()));
    append(&mut world, &again[0].to_string());
    assert_eq!(checked(&world, &mut probes), None);
    assert!(ask(&world, Asked::Expand(&id)).is_ok(), "it is shown again");
    assert_eq!((probes.count("fold dissolved"), probes.count("dissolved fold cut anew")), (1, 1));
}

#[test]
fn an_expansion_does_not_start_the_count_of_new_work_anew() {
    let mut world = folded(2);
    let id = leaf(&world);
    let opening = ask(&world, Asked::Expand(&id)).expect("a record");
    world.user(&lines(30_000));
    append(&mut world, &opening);
    world.user(&lines(4_000));
    world.answer("done", &[]);
    while occupancy(&world.branch, &settings(), WINDOW) < 16_000 {
        world.custom(&lines(400));
    }
    assert!(!matches!(decided(&world, Moment::TurnEnd), Verdict::Deferred(why) if why == "rearm"));
}

#[test]
fn a_notice_is_given_once_on_the_way_to_the_trigger() {
    let on = Settings::parse(r#"{"preCommitNotice":true,"noticeLeadShare":0.2}"#).expect("valid options");
    let says = |world: &World, moment| decide(&world.branch, &on, WINDOW, moment);
    let mut world = World::new(1);
    world.user("go");
    world.answer("done", &[]);
    assert_eq!(says(&world, Moment::TurnEnd), Verdict::Quiet, "far below");
    while occupancy(&world.branch, &on, WINDOW) < 12_000 {
        world.user(&lines(2_000));
        world.answer("done", &[]);
    }
    assert_eq!(
        (says(&world, Moment::TurnEnd), says(&world, Moment::Settling), says(&world, Moment::Request)),
        (Verdict::Notice, Verdict::Notice, Verdict::Quiet)
    );
    assert_eq!(decide(&world.branch, &Settings::default(), WINDOW, Moment::TurnEnd), Verdict::Quiet, "it is off by default");
    let told = |world: &mut World| drop(world.entry(&format!(r#""type":"custom_message","customType":"{NOTICE}","display":true,"content":"soon""#)));
    told(&mut world);
    world.answer("done", &[]);
    assert_eq!(says(&world, Moment::TurnEnd), Verdict::Quiet, "it was given");
    world.entry(r#""type":"compaction","summary":"so far","firstKeptEntryId":"e2","tokensBefore":1"#);
    assert_eq!(says(&world, Moment::TurnEnd), Verdict::Notice, "a compaction came after it");
}
