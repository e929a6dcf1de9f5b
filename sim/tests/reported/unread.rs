//! Text that is cut in the wrong place, words that are lost, pointers that lead nowhere.

use crate::talk::{SPANS, Talk, log, omission, target, words};
use crate::{must, seen_to_fail};
use fold_models::shown::Role as ShownRole;
use fold_runtime::agent::{Action, Detail, PAGE_CHARS, Peek, StatusPage, act};
use fold_runtime::fold::clip;
use fold_runtime::journal::{Entry, Journal, Kind, ReadError, Role};
use fold_runtime::session::{Decision, Draft, Moment, Session};

/// What must stay whole: four bytes, a family, a letter with marks, a line end.
const WHOLE: [&str; 4] = ["\u{1F600}", "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{200D}\u{1F466}", "e\u{301}\u{323}", "\r\n"];

/// A flag: two letters that belong together by their place in a run of such letters.
const FLAG: &str = "\u{1F1E9}\u{1F1EA}";

/// A text cut to head and tail between any two characters.
fn between_characters(text: &str, head: usize, tail: usize) -> String {
    format!("{}⟦{}", &text[..text.floor_char_boundary(head)], &text[text.ceil_char_boundary(text.len() - tail)..])
}

/// Whether clips of so many of these at any place near 400 bytes of head and 200 of tail keep each whole.
fn keeps_whole(one: &str, planted: bool) -> Result<(), String> {
    let text = one.repeat(400);
    let marker = |character| character == '⟦' || character == '⟧';
    for head in 400..400 + one.len() {
        for tail in 200..200 + one.len() {
            let clipped = if planted { Some(between_characters(&text, head, tail)) } else { clip(&text, "entry", head, tail) };
            let clipped = clipped.ok_or("it is not clipped")?;
            let (begins, ends) = (clipped.split(marker).next().unwrap_or(""), clipped.rsplit(marker).next().unwrap_or(""));
            // The marker stands on a line of its own.
            let (begins, ends) = (begins.strip_suffix('\n').unwrap_or(begins), ends.strip_prefix('\n').unwrap_or(ends));
            let whole = |kept: &str| kept.replace(one, "").is_empty();
            must(whole(begins) && whole(ends), || format!("{one:?} is torn at {head} and {tail}"))?;
        }
    }
    Ok(())
}

/// claude-code#50019, #56064, #69927, DeepSeek-Reasonix#1970 (PR 1976), pi#7121. A clip falls inside what is one character to whoever reads it.
#[test]
fn a_clip_falls_into_no_character_that_is_made_of_several() {
    for one in WHOLE.into_iter().filter(|one| one.chars().count() > 1) {
        seen_to_fail("is torn", |planted| keeps_whole(one, planted));
    }
    WHOLE.into_iter().try_for_each(|one| keeps_whole(one, false)).expect("whole characters");
}

/// The same, in an unbroken run of flags. Four letters and ninety flags behind them, cut to 400 and 200 bytes, are the smallest that a clip
/// of the law's own tears.
#[test]
fn a_clip_falls_into_no_flag_of_a_long_run() {
    seen_to_fail("is torn", |planted| keeps_whole(FLAG, planted));
}

/// The same reports, and codex-trace#279: JavaScript writes half a character, and who reads the line with a strict reader drops it, or a
/// result without which the session is refused for ever.
#[test]
fn a_line_with_half_a_character_is_read_folded_and_given_back_byte_for_byte() {
    seen_to_fail("is dropped", |planted| {
        let mut talk = Talk::new(SPANS, 20_000);
        talk.asks("go");
        talk.calls(&["half"], "toolUse");
        let broken = log(7, 3_000).replacen(' ', " \\ud83d ", 40);
        let half = talk.returns("half", "read", &broken);
        let commit = talk.until_due(1_500);
        talk.writes(&commit.drafts);
        let file = talk.host.file();
        let mut entries = Journal::read(file.as_bytes()).map_err(|why| why.to_string())?.entries;
        if planted {
            entries.retain(|entry| serde_json::from_str::<serde_json::Value>(entry.line()).is_ok());
        }
        let original = talk.host.entry(&half).ok_or("no entry")?.line();
        must(original.contains("\\ud83d"), || "nothing is broken in it".to_owned())?;
        let session = talk.seen(&entries);
        let hidden = session.folds().filter_map(|(fold, _)| session.recover(fold, None).ok()).flatten();
        let given: Vec<String> = hidden.filter(|given| given.id == half).map(|given| given.line).collect();
        must(!given.is_empty(), || "the line is dropped: no fold gives it back".to_owned())?;
        must(given.iter().all(|line| line == original), || "it comes back as something else".to_owned())?;
        talk.is_taken()
    });
}

/// DeepSeek-Reasonix#1970: a file that is no UTF-8. It is refused and the place is named; nothing is put in the place of a byte.
#[test]
fn a_session_file_that_is_no_text_is_refused_where_it_ceases_to_be() {
    seen_to_fail("something else", |planted| {
        let mut talk = Talk::new(SPANS, 20_000);
        talk.asks("go");
        let mut bytes = talk.host.file().into_bytes();
        let at = bytes.windows(2).rposition(|pair| pair == b"go").ok_or("no words")?;
        bytes[at] = 0xff;
        let read = if planted { Journal::read(String::from_utf8_lossy(&bytes).as_bytes()) } else { Journal::read(&bytes) };
        match read {
            Err(ReadError::NotUtf8(from)) => must(from == at, || format!("byte {from} is blamed, not {at}")),
            Err(other) => Err(other.to_string()),
            Ok(_) => Err("it is read as something else".to_owned()),
        }
    });
}

/// claude-code#6354, #9796, #19471, #13919, #80938, letta#2512, #2601: an instruction, a correction or the last request is gone after a
/// compaction. Thirty messages of a person's, and then 200,000 tokens of tool output.
#[test]
fn what_a_person_said_stands_word_for_word_and_in_its_order_after_three_commits() {
    seen_to_fail("is gone", |planted| {
        let said = |nth: usize| match nth {
            3 => "Never touch the migrations in db/migrate; write new ones.".to_owned(),
            17 => "No: the flag is called --dry-run, not --dryrun.".to_owned(),
            30 => "Now rename the module and make the tests pass.".to_owned(),
            _ => format!("What does part {nth} of the module do, in a few words?"),
        };
        let mut talk = Talk::new("{}", 60_000);
        for nth in 1..=30 {
            talk.asks(&said(nth));
            talk.batch(1_000);
            talk.says("it parses a line and hands it on");
        }
        talk.asks("go on");
        let (mut commits, mut came) = (0, 0);
        while came < 200_000 {
            let before = talk.tokens();
            let mut drafts = talk.until_due(20_000).drafts;
            (commits, came) = (commits + 1, came + talk.tokens() - before);
            if planted {
                // What was said before the newest message is history.
                let people = talk.host.branch().iter().filter(|entry| *entry.kind() == Kind::Message(Role::User)).map(Entry::id);
                let shown = people.filter(|id| drafts.iter().all(|draft| target(draft) != Some(id)));
                let mut old: Vec<Draft> = shown.map(omission).collect();
                old.pop();
                drafts.extend(old);
            }
            talk.writes(&drafts);
        }
        must(commits >= 3, || format!("only {commits} commits"))?;
        let people: Vec<String> = talk.host.window().iter().filter(|shown| shown.role == ShownRole::User).map(|shown| words(shown)).collect();
        let mut places = Vec::new();
        for nth in [3, 17, 30] {
            let place = people.iter().position(|message| message.contains(&said(nth)));
            places.push(place.ok_or_else(|| format!("\"{}\" is gone", said(nth)))?);
        }
        must(places.is_sorted(), || format!("they stand at {places:?}"))
    });
}

/// The calls of the policy's own tool that a text names.
fn named(text: &str) -> impl Iterator<Item = Action> {
    text.split("pi_fold_context ").skip(1).filter_map(|rest| {
        let call = serde_json::Deserializer::from_str(rest).into_iter::<serde_json::Value>().next()?.ok()?;
        Action::parse(&call.to_string()).ok()
    })
}

/// What the agent reads that follows every pointer in the window.
fn followed(talk: &Talk, session: &Session) -> Result<String, String> {
    let mut read = String::new();
    for shown in talk.host.window().iter().filter(|shown| shown.edit.is_some()) {
        for action in named(&words(shown)) {
            let action = if let Action::Peek(peek) = action { Action::Peek(Peek { bytes: 128_000, ..peek }) } else { action };
            let reply = act(session, &action, None, u64::MAX).map_err(|refused| format!("a pointer leads nowhere: {refused}"))?;
            read.push_str(&reply.text);
        }
    }
    Ok(read)
}

/// HKUDS Vibe-Trading#1343: "use the previous result", which had been masked; 44 calls for nothing. Folded, consolidated and clipped results alike.
#[test]
fn every_result_that_is_not_shown_comes_back_by_the_call_that_stands_in_its_place() {
    seen_to_fail("leads nowhere", |planted| {
        let settings = r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.5,"consolidateAfter":3,"minFoldChars":4000}}"#;
        let mut talk = Talk::new(settings, 20_000);
        talk.asks("go");
        let (mut parents, mut clips) = (0, 0);
        // What one look at a fold can show is enough for so much.
        while parents == 0 || clips == 0 {
            let commit = talk.until_due(2_500);
            (parents, clips) = (parents + commit.parents, clips + commit.clips);
            talk.writes(&commit.drafts);
        }
        // Whose store of folds was lost, and who looks into the window alone.
        let store = |entry: &&Entry| !planted || !matches!(entry.kind(), Kind::Custom { .. });
        let branch: Vec<Entry> = talk.host.branch().iter().filter(store).cloned().collect();
        let read = followed(&talk, &talk.seen(&branch))?;
        for entry in talk.host.branch().iter().filter(|entry| matches!(entry.kind(), Kind::Message(Role::ToolResult { .. }))) {
            let raw = talk.shown(entry.id()).is_some_and(|shown| shown.edit.is_none());
            let text: String = entry.content().blocks().iter().filter_map(|block| Some(block.text()?.to_string_lossy())).collect();
            must(raw || read.contains(&text), || format!("no pointer leads to {}", entry.id()))?;
        }
        Ok(())
    });
}

/// The report on pi-fold's own experiments (its log, "status"): pages of 526,368 bytes, which filled the window and could not be folded.
#[test]
fn twenty_looks_at_five_hundred_folds_are_pages_of_a_bounded_length_and_folded_at_the_next_commit() {
    seen_to_fail("characters at once", |planted| {
        let settings = r#"{"thresholds":{"maxTarget":0.8,"minTarget":0.2,"consolidateAfter":10,"minFoldChars":1000},"toolFoldThreshold":0}"#;
        let mut talk = Talk::new(settings, 400_000);
        talk.asks("go");
        (0..502).for_each(|_| talk.batch(1_700));
        let commit = talk.asked()?;
        must(commit.folds - commit.parents >= 500, || format!("{} folds", commit.folds))?;
        talk.writes(&commit.drafts);
        let mut looks = Vec::new();
        for look in 0..20 {
            let session = talk.session();
            let page = |page| act(&session, &Action::Status(StatusPage { detail: Detail::Tree, page }), None, u64::MAX).map(|reply| reply.text);
            let text = if planted { (1..).map_while(|nth| page(nth).ok()).collect() } else { page(1).map_err(|refused| refused.to_string())? };
            let length = text.chars().count();
            must(length <= PAGE_CHARS, || format!("{length} characters at once"))?;
            must(length * 2 > PAGE_CHARS, || "there is little to tell".to_owned())?;
            let id = format!("look_{look}");
            let call = format!(r#"[{{"type":"toolCall","id":"{id}","name":"pi_fold_context","arguments":{{"action":"status","detail":"tree"}}}}]"#);
            talk.answers(&call, "toolUse");
            looks.push(talk.returns(&id, "pi_fold_context", &serde_json::Value::from(text).to_string()));
        }
        talk.says("that is how it stands");
        talk.asks("go on");
        let commit = talk.asked()?;
        talk.writes(&commit.drafts);
        let whole = looks.iter().filter(|look| talk.shown(look).is_some_and(|shown| shown.edit.is_none())).count();
        must(whole <= 1 && talk.decides(Moment::Request) == Decision::Quiet, || format!("{whole} of them stand as they were"))
    });
}
