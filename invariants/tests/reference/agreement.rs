//! Two programs written from one page: at every boundary of synthetic sessions the runtime decides what the reference decides.

use crate::world::{Call, World, lines, text};
use fold_invariants::reference::{Asked, Moment, NOTICE, Verdict, asked, decide, occupancy, overlay};
use fold_runtime::agent::{Action, Id, Peek, Reboundary, act, peek};
use fold_runtime::config::Settings;
use fold_runtime::journal::{Entry, Kind, Role};
use fold_runtime::session::{Decided, Decision, Draft, Session};

pub fn verdict(decision: Decision) -> Verdict {
    match decision {
        Decision::Quiet => Verdict::Quiet,
        Decision::Notice { draft } => {
            assert!(is_notice_draft(&draft), "{draft:?}");
            Verdict::Notice
        }
        Decision::Deferred(deferral) => Verdict::Deferred(deferral.reason().into()),
        Decision::Recovery(recovery) => {
            Verdict::Recovery { drafts: recovery.drafts, left: recovery.left, deferral: recovery.deferral.map(|deferral| deferral.reason().into()) }
        }
        Decision::Commit(commit) => Verdict::Commit {
            trigger: commit.trigger.name().into(),
            refolded: commit.refolded,
            drafts: commit.drafts,
            left: commit.left,
            before: commit.before,
            target: commit.target,
            after: commit.after,
        },
    }
}

/// Whether it is the message that a commit is near, whatever it says.
fn is_notice_draft(draft: &Draft) -> bool {
    let says = |content: &String| serde_json::from_str(content).is_ok_and(|json: serde_json::Value| json.is_string() || json.is_array());
    matches!(draft, Draft::CustomMessage { custom_type, content } if *custom_type == NOTICE && says(content))
}

/// How often, in a thousand turns, a session does what it may do.
#[derive(Clone, Copy, Default)]
pub struct Habits {
    pub users: usize,
    pub heavy_users: usize,
    pub customs: usize,
    pub commands: usize,
    pub systems: usize,
    pub failures: usize,
    pub huge_calls: usize,
    pub irregular: usize,
    pub unmeasured: usize,
    pub images: usize,
    pub foreign: usize,
    pub compactions: usize,
    pub switches: usize,
    pub moments: usize,
    pub torn: usize,
    pub pins: usize,
    pub unmarks: usize,
    pub cuts: usize,
    pub peeks: usize,
    pub turns: usize,
}

/// A step of an agent after what a person or an extension said, and what the world does besides.
pub fn turn(world: &mut World, habits: Habits, session: &Session) {
    if world.in_thousand(habits.systems) {
        world.message(r#"{"role":"system","content":"be good"}"#);
    }
    if world.in_thousand(habits.users) {
        let size = if world.in_thousand(habits.heavy_users) { 8_000 + world.below(12_000) } else { 20 + world.below(900) };
        if world.in_thousand(500) {
            world.user(&lines(size));
        } else {
            let image = world.image(habits.images);
            world.message(&format!(r#"{{"role":"user","content":[{}{image}]}}"#, text(&lines(size))));
        }
    }
    if world.in_thousand(habits.customs) {
        let size = world.below(3_000);
        world.custom(&lines(size));
    }
    if world.in_thousand(habits.failures) {
        let stop = ["error", "aborted", "length"][world.below(3)];
        let id = world.answer_as(&lines(300), &[], stop, false);
        if world.in_thousand(500) {
            world.entry(&format!(r#""type":"context_edit","targetId":"{id}","replacement":null"#));
        }
    }
    if world.in_thousand(habits.switches) {
        world.model = ["m", "n"][world.below(2)];
        if world.in_thousand(500) {
            let model = world.model;
            world.entry(&format!(r#""type":"model_change","provider":"p","modelId":"{model}""#));
        }
    }
    decide_something(world, habits, session);
    step(world, habits, session);
    let folded = world.in_thousand(habits.torn).then(|| folded(world, session)).flatten();
    if let Some(target) = folded.or_else(|| world.in_thousand(habits.foreign).then(|| world.any(60))) {
        let replacement = if world.in_thousand(500) { "null".to_owned() } else { format!(r#"{{"content":[{}]}}"#, text(&lines(700))) };
        world.entry(&format!(r#""type":"context_edit","targetId":"{target}","replacement":{replacement}"#));
    }
    if world.in_thousand(habits.compactions) {
        // What keeps more than the one before it shows again what that one left out.
        let kept = if world.in_thousand(250) { world.any(400) } else { world.cut(120) };
        world.entry(&format!(r#""type":"compaction","summary":"so far so good","firstKeptEntryId":"{kept}","tokensBefore":1"#));
    }
}

/// Something that a fold hides, or the message before it.
fn folded(world: &mut World, session: &Session) -> Option<String> {
    let folds: Vec<&str> = session.folds().map(|(id, _)| id).collect();
    let fold = folds.get(world.below(folds.len().max(1)))?;
    let hidden = session.hidden(fold)?;
    let id = hidden[world.below(hidden.len())].to_owned();
    let back = world.in_thousand(300);
    let at = world.branch.iter().position(|entry| entry.id() == id)?;
    let before = world.branch[..at].iter().rfind(|entry| matches!(entry.kind(), Kind::Message(_)));
    Some(before.filter(|_| back).map_or(id, |entry| entry.id().to_owned()))
}

/// A pin, a withdrawal or a cut; most of them count.
fn decide_something(world: &mut World, habits: Habits, session: &Session) {
    let begins = |entry: &&Entry| matches!(entry.kind(), Kind::CustomMessage | Kind::Message(Role::Assistant(_)));
    let units: Vec<String> = world.branch.iter().filter(begins).map(|entry| entry.id().to_owned()).collect();
    let some = |world: &mut World, most: usize| {
        let from = units.len().saturating_sub(1 + world.below(60));
        let many = 1 + world.below(most);
        units[from..].iter().take(many).cloned().collect::<Vec<String>>()
    };
    if world.in_thousand(habits.pins) {
        let folds: Vec<String> = session.folds().filter(|_| world.in_thousand(100)).map(|(id, _)| id.to_owned()).collect();
        let units = if world.in_thousand(300) { vec![world.any(80)] } else { some(world, 2) };
        let decided = if world.in_thousand(700) { Decided::Pin { units, folds } } else { Decided::Unpin { units, folds } };
        world.decision(&decided);
    }
    if world.in_thousand(habits.unmarks) {
        let units = some(world, 6);
        world.decision(&Decided::Unmark { units });
    }
    if world.in_thousand(habits.cuts) {
        let units = some(world, 5);
        let brief = world.in_thousand(500).then(|| format!("What {} was about.\nNothing else.", units.len()));
        world.decision(&Decided::Cut { units, brief });
    }
}

/// A fold to be opened, closed or dissolved: both say what is to be appended, or both refuse. What the tool appends is appended.
fn turn_a_fold(world: &mut World, session: &mut Session, (settings, window): (&Settings, u64), place: &str) {
    let mut folds: Vec<&str> = session.folds().map(|(id, _)| id).collect();
    folds.sort_by_key(|id| (session.roots().all(|(root, ..)| root != *id), *id));
    // Mostly a root, or one that a fold that is open shows.
    let most = if world.in_thousand(700) { session.roots().count() } else { folds.len() };
    let Some(id) = folds.get(world.below(most.max(1))).map(|id| (*id).to_owned()) else { return };
    let dissolves = world.in_thousand(150);
    let (action, question) = if dissolves {
        let inside: Vec<String> = session.hidden(&id).unwrap_or_default().into_iter().map(str::to_owned).collect();
        let begins = |id: &&String| session.entry(id).is_some_and(|entry| !matches!(entry.kind(), Kind::Message(Role::ToolResult { .. })));
        let edges: Vec<String> = inside.iter().filter(begins).cloned().collect();
        let at = edges.get(world.below(edges.len().max(1))).cloned().into_iter().collect();
        (Action::Reboundary(Reboundary { id: id.clone(), at }), Asked::Dissolve(&id))
    } else if world.in_thousand(700) {
        (Action::Expand(Id { id: id.clone() }), Asked::Expand(&id))
    } else {
        (Action::Refold(Id { id: id.clone() }), Asked::Refold(&id))
    };
    let (reference, runtime) = (asked(&world.branch, settings, window, question), act(session, &action, None, u64::MAX));
    match (&reference, &runtime) {
        (Ok(record), Ok(reply)) => {
            let Draft::Custom { data, .. } = &reply.drafts[0] else { panic!("a record: {place}") };
            assert_eq!(record, data, "{action:?}: {place}");
            let from = world.branch.len();
            world.apply(&reply.drafts);
            world.branch[from..].iter().for_each(|entry| session.observe(entry));
        }
        (Err(_), Err(_)) => {}
        // Its cuts may be refused too.
        (Ok(_), Err(_)) if dissolves => {}
        _ => panic!("{action:?}: {place}\nreference: {reference:?}\nruntime: {runtime:?}"),
    }
}

/// A peek's answer, where there is something to peek at.
fn peeked(world: &mut World, session: &Session) -> Option<String> {
    let folds: Vec<&str> = session.folds().map(|(id, _)| id).collect();
    let id = (*folds.get(world.below(folds.len().max(1)))?).to_owned();
    let bytes = 1_024 + world.below(12_000);
    let asked = Peek { bytes, ephemeral: world.in_thousand(800), ..Peek::of(&id) };
    peek(session, &asked, None, 100_000).ok()
}

fn step(world: &mut World, habits: Habits, session: &Session) {
    let calls: Vec<Call> = (0..world.below(4))
        .map(|index| {
            let tool = ["bash", "bash", "bash", "read", "keep", "pi_fold_context"][world.below(6)];
            let size = if world.in_thousand(habits.huge_calls) { 9_000 } else { world.below(200) };
            (format!("c{}-{index}", world.branch.len()), tool.to_owned(), format!(r#"{{"command":"{}"}}"#, "x".repeat(size)))
        })
        .collect();
    let note = lines(if world.in_thousand(300) { world.below(2_000) } else { world.below(60) + usize::from(calls.is_empty()) });
    let measured = !world.in_thousand(habits.unmeasured);
    world.answer_as(&note, &calls, if calls.is_empty() { "stop" } else { "toolUse" }, measured);
    if world.in_thousand(habits.commands) {
        world.message(r#"{"role":"bashExecution","command":"ls","output":"a","exitCode":0,"cancelled":false,"truncated":false}"#);
    }
    for (id, tool, _) in calls {
        let size = if world.in_thousand(200) { world.below(20_000) } else { world.below(2_500) };
        let (image, is_error) = (world.image(habits.images), world.in_thousand(200));
        let peeked = (tool == "pi_fold_context" && world.in_thousand(habits.peeks)).then(|| peeked(world, session)).flatten();
        if !world.in_thousand(habits.irregular) {
            world.result(&id, &tool, &format!("{}{image}", text(&peeked.unwrap_or_else(|| lines(size)))), is_error);
        }
    }
}

/// Whether it is what they are known to part on: a commit that cannot wait, while something is withdrawn. See the test in `others` that
/// Mostly a turn's end.
fn moment(world: &mut World, habits: Habits) -> Moment {
    if !world.in_thousand(habits.moments) {
        return Moment::TurnEnd;
    }
    [Moment::Settling, Moment::Request, Moment::Refused, Moment::Asked][world.below(4)]
}

/// Asks both at this moment; answers with the verdict they share.
fn shared(session: &Session, world: &World, settings: &Settings, window: u64, moment: Moment, place: &str) -> Verdict {
    assert_eq!(session.occupancy(), occupancy(&world.branch, settings, window), "occupancy of runtime and reference: {place}");
    let (reference, runtime) = (decide(&world.branch, settings, window, moment), verdict(session.boundary(moment)));
    assert!(reference == runtime, "{place}\n{}", difference(&reference, &runtime));
    let ours: Vec<(String, Option<String>)> =
        session.overlay().into_iter().map(|(id, content)| (id.to_owned(), content.map(str::to_owned))).collect();
    assert!(ours == overlay(&world.branch), "overlay of runtime and reference: {place}");
    reference
}

/// How many turns ended in a commit. The runtime observes entry by entry; at a commit it must also say the same when opened afresh.
fn agree(seed: u64, turns: usize, window: u64, options: &str, habits: Habits) -> usize {
    agree_through(seed, turns, window, &[options], habits)
}

/// The same where the settings change every forty turns.
fn agree_through(seed: u64, turns: usize, window: u64, options: &[&str], habits: Habits) -> usize {
    let mut all = options.iter().cycle().map(|options| Settings::parse(options).expect("valid options"));
    let mut settings = all.next().expect("settings");
    let mut world = World::new(seed);
    let mut session = Session::open(&[], &settings, window).expect("a budget");
    let (mut seen, mut commits) = (0, 0);
    for number in 0..turns {
        if options.len() > 1 && number % 40 == 39 {
            settings = all.next().expect("settings");
            session.configure(&settings, window).expect("a budget");
        }
        turn(&mut world, habits, &session);
        world.branch[seen..].iter().for_each(|entry| session.observe(entry));
        let place = format!("seed {seed}, turn {number}, {} entries", world.branch.len());
        if world.in_thousand(habits.turns) {
            turn_a_fold(&mut world, &mut session, (&settings, window), &place);
        }
        seen = world.branch.len();
        let moment = moment(&mut world, habits);
        let shared = shared(&session, &world, &settings, window, moment, &place);
        if let Verdict::Commit { drafts, .. } | Verdict::Recovery { drafts, .. } = &shared {
            let afresh = Session::open(&world.branch, &settings, window).expect("a budget");
            assert!(verdict(afresh.boundary(moment)) == verdict(session.boundary(moment)), "a session opened afresh: {place}");
            // One commit in four is cut off.
            let written = if world.in_thousand(250) { 1 + world.below(drafts.len()) } else { drafts.len() };
            world.apply(&drafts[..written]);
            commits += usize::from(matches!(shared, Verdict::Commit { .. }));
        } else if let Decision::Notice { draft } = session.boundary(moment) {
            world.apply(&[draft]);
        }
    }
    commits
}

/// Where two verdicts part, short enough to read.
fn difference(reference: &Verdict, runtime: &Verdict) -> String {
    let (Verdict::Commit { drafts: left, .. }, Verdict::Commit { drafts: right, .. }) = (reference, runtime) else {
        return format!("reference: {}\nruntime: {}", summary(reference), summary(runtime));
    };
    let line = |draft: Option<&Draft>| match draft {
        Some(Draft::Custom { data, .. }) => data.replace("{\"id\"", "\n  {\"id\"").replace("\"edits\"", "\n  \"edits\""),
        other => format!("{other:?}"),
    };
    let parted = (0..left.len().max(right.len())).filter(|at| left.get(*at) != right.get(*at)).take(3);
    let parted: Vec<String> = parted.map(|at| format!("draft {at}\nreference: {}\nruntime: {}", line(left.get(at)), line(right.get(at)))).collect();
    format!("reference: {}\nruntime: {}\n{}", summary(reference), summary(runtime), parted.join("\n"))
}

fn summary(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Commit { trigger, refolded, drafts, left, before, target, after } => {
            let closed = if *refolded > 0 { format!(" after closing {refolded}") } else { String::new() };
            format!("{trigger} commit{closed} of {} drafts, {left} left, {before} to {after}, target {target}", drafts.len())
        }
        other => format!("{other:?}"),
    }
}

fn options(consolidate_after: usize, min_fold_chars: usize, more: &str) -> String {
    format!(r#"{{"thresholds":{{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":{consolidate_after},"minFoldChars":{min_fold_chars}}}{more}}}"#)
}

/// The same for several seeds.
fn all_agree(window: u64, options: &str, habits: Habits) {
    let (seeds, turns) = (2, 220);
    let commits: usize = (0..seeds).map(|seed| agree(seed, turns, window, options, habits)).sum();
    assert!(commits >= 2, "{commits} commits are no test");
}

#[test]
fn they_agree_on_endless_turns_of_batches() {
    all_agree(20_000, &options(3, 8_000, ""), Habits { users: 5, ..Habits::default() });
    all_agree(20_000, &options(2, 3_000, r#","toolFoldThreshold":0"#), Habits::default());
}

#[test]
fn they_agree_on_chats() {
    all_agree(24_000, &options(3, 4_000, ""), Habits { users: 700, heavy_users: 60, customs: 100, ..Habits::default() });
}

#[test]
fn they_agree_on_tiny_budgets() {
    let habits = Habits { users: 300, heavy_users: 100, customs: 200, huge_calls: 50, images: 50, ..Habits::default() };
    all_agree(10_000, &options(2, 1_000, ""), habits);
}

#[test]
fn they_agree_where_batches_are_held() {
    let held = r#","blacklistAutoFoldTools":["keep"]"#;
    all_agree(30_000, &options(2, 2_000, held), Habits { users: 300, customs: 100, commands: 200, ..Habits::default() });
}

const EVERYTHING: Habits = Habits {
    users: 300,
    heavy_users: 100,
    customs: 100,
    commands: 100,
    systems: 10,
    failures: 60,
    huge_calls: 30,
    irregular: 20,
    unmeasured: 100,
    images: 50,
    foreign: 20,
    compactions: 5,
    switches: 5,
    moments: 50,
    torn: 50,
    pins: 20,
    unmarks: 20,
    cuts: 30,
    peeks: 300,
    turns: 100,
};

#[test]
fn they_agree_where_folds_are_opened_and_closed_and_dissolved() {
    let habits = Habits { users: 200, heavy_users: 100, customs: 50, pins: 10, turns: 300, ..Habits::default() };
    all_agree(20_000, &options(2, 1_000, r#","preCommitNotice":true"#), habits);
    all_agree(40_000, &options(3, 1_000, r#","toolFoldThreshold":0"#), Habits { foreign: 20, compactions: 5, ..habits });
}

#[test]
fn they_agree_on_everything_a_session_may_do() {
    all_agree(20_000, &options(2, 2_000, r#","blacklistAutoFoldTools":["keep"]"#), EVERYTHING);
    all_agree(16_000, &options(3, 1_000, r#","toolFoldThreshold":0.9"#), EVERYTHING);
}

#[test]
fn they_agree_where_the_settings_change_on_the_way() {
    let held = options(2, 2_000, r#","blacklistAutoFoldTools":["keep"]"#);
    let (small, large) = (options(3, 300, r#","toolFoldThreshold":0.9"#), options(2, 6_000, ""));
    for seed in 0..2 {
        agree_through(seed, 220, 20_000, &[&held, &small, &large], EVERYTHING);
        agree_through(seed + 100, 220, 12_000, &[&large, &small], Habits { users: 300, customs: 200, commands: 100, ..Habits::default() });
    }
}

/// A number of sessions with habits, windows and settings drawn at random; `AGREE_FROM` and `AGREE_SEEDS` widen the search.
#[test]
fn they_agree_whatever_the_habits() {
    let number = |name, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (from, seeds) = (number("AGREE_FROM", 313), number("AGREE_SEEDS", 4));
    let turns = usize::try_from(number("AGREE_TURNS", 220)).expect("a number of turns");
    for seed in from..from + seeds {
        let mut draw = World::new(seed);
        let mut pick = |choices: &[usize]| choices[draw.below(choices.len())];
        let habits = Habits {
            users: pick(&[0, 30, 300, 900]),
            heavy_users: pick(&[0, 50, 300]),
            customs: pick(&[0, 100, 500]),
            commands: pick(&[0, 100]),
            systems: pick(&[0, 0, 10, 50]),
            failures: pick(&[0, 50, 200]),
            huge_calls: pick(&[0, 20, 200]),
            irregular: pick(&[0, 10, 100]),
            unmeasured: pick(&[0, 0, 100, 1_000]),
            images: pick(&[0, 50, 300]),
            foreign: pick(&[0, 10, 100]),
            compactions: pick(&[0, 0, 10, 50]),
            switches: pick(&[0, 0, 10, 100]),
            moments: pick(&[0, 30, 200]),
            torn: pick(&[0, 0, 20, 200]),
            pins: pick(&[0, 0, 10, 50]),
            unmarks: pick(&[0, 0, 20, 100]),
            cuts: pick(&[0, 0, 30, 200]),
            peeks: pick(&[0, 300, 900]),
            turns: pick(&[0, 50, 200, 600]),
        };
        let window = pick(&[10_000, 12_000, 20_000, 40_000]) as u64;
        let clips = pick(&[0, 50, 90]);
        let held = [r#","blacklistAutoFoldTools":["keep"]"#, ""][pick(&[0, 1])];
        let notice = ["", r#","preCommitNotice":true"#][pick(&[0, 1])];
        let options = options(pick(&[2, 2, 3, 4]), pick(&[300, 1_000, 3_000, 8_000]), &format!(r#","toolFoldThreshold":0.{clips:02}{held}{notice}"#));
        agree(seed, turns, window, &options, habits);
    }
}

/// The verdict both give on a small branch.
fn agreed(world: &World, settings: &Settings) -> Verdict {
    let session = Session::open(&world.branch, settings, 20_000).expect("a budget");
    shared(&session, world, settings, 20_000, Moment::TurnEnd, "a small branch")
}

fn replace(world: &mut World, target: &str, bytes: usize) {
    let content = text(&lines(bytes));
    world.entry(&format!(r#""type":"context_edit","targetId":"{target}","replacement":{{"content":[{content}]}}"#));
}

fn compact(world: &mut World, kept: &str) {
    world.entry(&format!(r#""type":"compaction","summary":"so far so good","firstKeptEntryId":"{kept}","tokensBefore":1"#));
}

#[test]
fn an_edit_of_something_that_pi_cannot_edit_adds_nothing() {
    let mut world = World::new(1);
    let command = world.message(r#"{"role":"bashExecution","command":"ls","output":"a"}"#);
    world.answer("hello", &[]);
    replace(&mut world, &command, 9_000);
    agreed(&world, &Settings::default());
}

#[test]
fn an_edit_of_an_answer_that_is_never_sent_adds_nothing() {
    let mut world = World::new(1);
    world.user("hello");
    let aborted = world.answer_as("hel", &[], "aborted", false);
    world.answer("hello", &[]);
    replace(&mut world, &aborted, 9_000);
    agreed(&world, &Settings::default());
}

#[test]
fn an_edit_of_an_entry_that_a_compaction_left_out_adds_nothing() {
    let mut world = World::new(1);
    let question = world.user("hello");
    let answer = world.answer("hello", &[]);
    compact(&mut world, &answer);
    world.answer("again", &[]);
    replace(&mut world, &question, 9_000);
    agreed(&world, &Settings::default());
}

#[test]
fn words_that_two_compactions_kept_are_words_whatever_the_first_one_left_out() {
    // The first question carries a fold, and the first compaction leaves both out; the second one must not count it off again.
    let mut world = World::new(1);
    world.user(&lines(6_000));
    world.user("go on");
    for _ in 0..9 {
        world.answer(&lines(6_000), &[]);
    }
    let Verdict::Commit { drafts, .. } = agreed(&world, &Settings::default()) else { panic!("a commit") };
    world.apply(&drafts);
    let first = world.answer("hello", &[]);
    compact(&mut world, &first);
    let kept = world.user(&lines(4_000));
    world.answer("hello", &[]);
    compact(&mut world, &kept);
    for _ in 0..3 {
        world.user(&lines(1_500));
        world.step(16_000);
    }
    world.answer("done", &[]);
    assert!(matches!(agreed(&world, &Settings::default()), Verdict::Commit { .. }));
}

#[test]
fn words_that_were_given_back_are_words() {
    let settings = Settings::parse(&options(2, 4_000, "")).expect("valid");
    let mut world = given_back(&settings, 3_000);
    for _ in 0..4 {
        world.user(&lines(1_500));
        world.step(16_000);
    }
    world.answer("done", &[]);
    assert!(matches!(agreed(&world, &settings), Verdict::Commit { .. }));
}

/// A question of this many bytes carried the first fold; a result carries their parent, so the question shows its own content again.
fn given_back(settings: &Settings, bytes: usize) -> World {
    let mut world = World::new(1);
    let question = world.user(&lines(bytes));
    world.user("go on");
    for _ in 0..9 {
        world.answer(&lines(6_000), &[]);
    }
    let Verdict::Commit { drafts, .. } = agreed(&world, settings) else { panic!("a commit") };
    assert!(matches!(&drafts[1], Draft::ContextEdit { target, .. } if *target == question), "{:?}", drafts[1]);
    world.apply(&drafts);
    for _ in 0..4 {
        world.step(16_000);
    }
    world.answer("done", &[]);
    let Verdict::Commit { drafts, .. } = agreed(&world, settings) else { panic!("a commit") };
    assert!(drafts.iter().any(|draft| matches!(draft, Draft::ContextEdit { target, replacement: Some(_) } if *target == question)));
    world.apply(&drafts);
    world
}

#[test]
fn a_heavy_user_message_that_is_given_back_is_clipped_at_once() {
    let settings = Settings::parse(&options(2, 4_000, "")).expect("valid");
    let world = given_back(&settings, 9_000);
    let edit = world.branch.iter().rfind(|entry| matches!(entry.kind(), Kind::ContextEdit { target, .. } if **target == *world.branch[0].id()));
    assert!(edit.expect("an edit").line().contains("clipped"));
}
