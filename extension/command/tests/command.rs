//! The command as a person runs it, on sessions that really were folded.

mod world;

use serde_json::Value;
use world::{AROUND, Folded, folder, pi_fold, screen};

/// Runs `verify`; its exit status, its report, and what it said.
fn verify(folded: &Folded) -> (Option<i32>, Value, String) {
    let output = pi_fold(&folded.folder, &["verify", "session.jsonl", "--json", "out.json"]);
    let text = screen(&output);
    let report = std::fs::read_to_string(folded.folder.join("out.json")).unwrap_or_default();
    (output.status.code(), serde_json::from_str(&report).unwrap_or(Value::Null), text)
}

/// How many folds are in each state: whole, reformatted, in the store only, damaged.
fn counts(report: &Value) -> [u64; 4] {
    ["whole", "reformatted", "store_only", "damaged"].map(|state| report["counts"][state].as_u64().expect("a count"))
}

/// What is done to a line.
type Change = fn(&str) -> String;

/// As Python's `json.dumps` writes a line: spaces, escapes, exponents, the same order of keys.
fn as_python(line: &str) -> String {
    let spaced = line.replace("\":", "\" :").replace(",\"", ", \"").replace("3e-7", "3e-07");
    spaced.chars().map(|c| if c.is_ascii() { c.to_string() } else { escaped(c) }).collect()
}

fn escaped(character: char) -> String {
    character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect()
}

/// The same object with its keys in another order, also of what is in it.
fn reordered(line: &str) -> String {
    let value: Value = serde_json::from_str(line).expect("JSON");
    let text = value.to_string();
    assert_ne!(text, line, "the keys were not in that order before");
    text
}

#[test]
fn a_fold_that_the_journal_has_is_whole_with_a_store_and_without_and_looking_changes_nothing() {
    let mut folded = Folded::new("whole");
    let (status, report, text) = verify(&folded);
    assert_eq!(status, Some(0), "{text}");
    let all = folded.session.folds().count() as u64;
    assert_eq!((counts(&report), &report["store"], &report["damaged"]), ([all, 0, 0, 0], &Value::Null, &false.into()), "{text}");
    assert!(text.contains("second copies: none"), "{text}");
    folded.keep();
    let names = || {
        let entries = std::fs::read_dir(&folded.folder).expect("a folder").map(|entry| entry.expect("an entry"));
        let mut all: Vec<_> = entries.map(|entry| (entry.file_name(), entry.metadata().expect("a file").modified().expect("a time"))).collect();
        all.retain(|(name, _)| name != "out.json" && !name.to_string_lossy().ends_with("-wal") && !name.to_string_lossy().ends_with("-shm"));
        all.sort();
        all
    };
    let before = names();
    let (status, report, text) = verify(&folded);
    assert_eq!((status, counts(&report)), (Some(0), [all, 0, 0, 0]), "{text}");
    assert!(report["store"].as_str().is_some_and(|store| store.ends_with("pi-fold.sqlite")), "{text}");
    assert_eq!(names(), before);
}

#[test]
fn a_line_with_other_spaces_and_escapes_is_reformatted_and_no_damage_without_any_store() {
    let folded = Folded::new("reformatted");
    for id in ["r0", "a1"] {
        folded.with(id, as_python);
        let (status, report, text) = verify(&folded);
        let [_, reformatted, store_only, damaged] = counts(&report);
        assert_eq!((status, reformatted > 0, store_only, damaged), (Some(0), true, 0, 0), "{text}");
        assert!(text.contains(&format!("{id} (line ")) && text.contains("reformatted, same content; only spaces or escapes differ"), "{text}");
    }
}

#[test]
fn keys_in_another_order_are_told_from_damage_by_the_copy_in_the_store_and_by_nothing_else() {
    let mut folded = Folded::new("reordered");
    folded.with("r0", reordered);
    let (status, report, text) = verify(&folded);
    assert_eq!((status, counts(&report)[3] > 0), (Some(42), true), "{text}");
    folded.keep();
    let (status, report, text) = verify(&folded);
    let [_, reformatted, store_only, damaged] = counts(&report);
    assert_eq!((status, reformatted > 0, store_only, damaged), (Some(0), true, 0, 0), "{text}");
    assert!(text.contains("its keys are in another order; the store has its bytes"), "{text}");
}

#[test]
fn one_letter_that_changed_is_damage_where_no_store_has_the_original() {
    let mut folded = Folded::new("damaged");
    let changes: [(&str, Change); 3] = [
        ("its line is not what was folded", |line| line.replacen("line of output", "line of outpux", 1)),
        ("its line is not what was folded", |line| as_python(line).replacen("line of output", "line of outpux", 1)),
        ("no line of the file is this entry", |_| "torn {".to_owned()),
    ];
    for store in [false, true] {
        if store {
            folded.keep();
        }
        for (why, change) in changes {
            folded.with("r0", change);
            let (status, report, text) = verify(&folded);
            let [whole, reformatted, store_only, damaged] = counts(&report);
            assert!(text.contains(why), "{text}");
            // The fold itself and those that contain it; others are whole.
            let touched = if store { store_only } else { damaged };
            assert_eq!((status, reformatted, touched, whole > 0), (Some(if store { 0 } else { 42 }), 0, AROUND as u64, true), "{text}");
            assert_eq!(report["damaged"], !store);
            assert_eq!(store_only + damaged, touched);
        }
    }
}

#[test]
fn a_copy_in_the_store_that_rotted_is_no_copy() {
    let mut folded = Folded::new("rotted");
    folded.keep();
    let store = folded.folder.join("pi-fold.sqlite");
    let original = folded.branch.iter().find(|entry| entry.id() == "r0").expect("an entry").digest();
    fold_store::Store::open(&store).and_then(|mut store| fold_runtime::ports::ObjectStore::put(&mut store, original, b"rot")).expect("kept");
    assert_eq!(verify(&folded).0, Some(0));
    folded.with("r0", |line| line.replacen("line", "lime", 1));
    let (status, _, text) = verify(&folded);
    assert_eq!(status, Some(42), "{text}");
    assert!(text.contains("and the store does not have it"), "{text}");
}

#[test]
fn bytes_that_are_no_text_damage_their_own_line_and_no_other() {
    let mut folded = Folded::new("bytes");
    let path = folded.folder.join("session.jsonl");
    let mut bytes = std::fs::read(&path).expect("a file");
    let at = bytes.windows(14).position(|window| window == b"line of output").expect("the first result");
    bytes[at] = 0xFF;
    std::fs::write(&path, bytes).expect("written");
    let (status, report, text) = verify(&folded);
    assert_eq!((status, counts(&report)[3]), (Some(42), AROUND as u64), "{text}");
    assert!(text.contains("not UTF-8 from byte"), "{text}");
    folded.keep();
    let (status, report, text) = verify(&folded);
    assert_eq!((status, counts(&report)[2], counts(&report)[3]), (Some(0), AROUND as u64, 0), "{text}");
}

#[test]
fn a_record_that_was_changed_vouches_for_nothing_and_one_of_a_newer_version_is_not_judged() {
    let folded = Folded::new("records");
    let record = folded.branch.iter().find(|entry| entry.line().contains("pi-fold.commit")).expect("a record").id().to_owned();
    folded.with(&record, |line| line.replacen("\"parts\":[[\"r0\"", "\"parts\":[[\"r1\"", 1));
    let (status, report, text) = verify(&folded);
    assert_eq!((status, report["unreadable"].as_array().map(Vec::len)), (Some(42), Some(1)), "{text}");
    assert!(text.contains(&format!("the fold record {record}")), "{text}");
    // The parent names a fold of which there is no record.
    assert!(text.contains("which it contains, is not in the file"), "{text}");
    // Where nothing else names what it folded, the record alone tells.
    let last = folded.branch.iter().rfind(|entry| entry.line().contains("pi-fold.commit")).expect("a record").id().to_owned();
    folded.with(&last, |line| line.replacen("\"kind\":\"tool\"", "\"kind\":\"span\"", 1));
    let (status, report, text) = verify(&folded);
    assert_eq!((status, counts(&report)[3], &report["damaged"]), (Some(42), 0, &true.into()), "{text}");
    folded.with(folded.branch.last().expect("an entry").id(), |_| {
        r#"{"type":"custom","id":"z","parentId":null,"customType":"pi-fold.commit","data":{"v":2,"folds":7}}"#.to_owned()
    });
    let (status, report, text) = verify(&folded);
    assert_eq!((status, report["newer"].as_array().map(Vec::len)), (Some(1), Some(1)), "{text}");
    assert!(text.contains("a newer pi-fold can"), "{text}");
}

#[test]
fn export_gives_the_exact_lines_of_a_fold_and_of_one_in_it_in_the_order_of_the_session() {
    let folded = Folded::new("export");
    let (parent, child) = folded.parent().expect("a parent");
    for fold in [&parent, &child] {
        let output = pi_fold(&folded.folder, &["export", "session.jsonl", fold]);
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{}", screen(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), folded.hidden(fold), "{fold}");
    }
    assert!(folded.hidden(&parent).len() > folded.hidden(&child).len());
}

#[test]
fn export_gives_the_same_bytes_of_a_reformatted_line_and_of_one_that_only_the_store_has() {
    let mut folded = Folded::new("export-anew");
    let parent = folded.parent().expect("a parent").0;
    let export = |folded: &Folded| pi_fold(&folded.folder, &["export", "session.jsonl", &parent]);
    folded.with("r0", as_python);
    let output = export(&folded);
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()), (Some(0), folded.hidden(&parent).as_str()));
    assert!(screen(&output).contains("note: r0: only spaces or escapes differ"), "{}", screen(&output));
    folded.keep();
    // The order is that of the session also where the file does not have the line any more.
    for id in ["r0", "a1"] {
        folded.with(id, |_| String::new());
        let output = export(&folded);
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()), (Some(0), folded.hidden(&parent).as_str()), "{id}");
    }
}

#[test]
fn export_gives_nothing_in_the_place_of_what_is_damaged() {
    let folded = Folded::new("export-damaged");
    let parent = folded.parent().expect("a parent").0;
    folded.with("r0", |line| line.replacen("line", "lime", 1));
    let output = pi_fold(&folded.folder, &["export", "session.jsonl", &parent, "-o", "out.txt"]);
    assert_eq!((output.status.code(), output.stdout.len(), folded.folder.join("out.txt").exists()), (Some(42), 0, false));
    assert!(screen(&output).contains("r0: its line is not what was folded, and there is no store"), "{}", screen(&output));
}

#[test]
fn export_writes_a_new_file_and_never_over_another() {
    let folded = Folded::new("export-file");
    let child = folded.parent().expect("a parent").1;
    let export = || pi_fold(&folded.folder, &["export", "session.jsonl", &child, "-o", "out.txt"]);
    let read = || std::fs::read_to_string(folded.folder.join("out.txt")).expect("a file");
    assert_eq!((export().status.code(), read()), (Some(0), folded.hidden(&child)));
    std::fs::write(folded.folder.join("out.txt"), "mine").expect("written");
    let output = export();
    assert_eq!((output.status.code(), read().as_str()), (Some(1), "mine"));
    assert!(screen(&output).contains("out.txt exists and is not written over"), "{}", screen(&output));
}

#[test]
fn export_without_a_fold_lists_them_as_a_tree_and_so_does_the_refusal_of_one_that_is_not_there() {
    let folded = Folded::new("list");
    let (parent, child) = folded.parent().expect("a parent");
    let listed = screen(&pi_fold(&folded.folder, &["export", "session.jsonl"]));
    assert_eq!(listed.lines().count(), folded.session.folds().count(), "{listed}");
    let entries = folded.session.hidden(&parent).expect("a fold").len();
    let bytes = fold_sim::table::thousands(folded.hidden(&parent).len() as u64);
    assert!(listed.contains(&format!("{parent}  consolidated, {entries} entries, {bytes} bytes  f_")), "{listed}");
    assert!(listed.lines().any(|line| line.starts_with(&format!("    {child}  tool, 1 entry, ")) && line.ends_with("  | bash(test 0)")), "{listed}");
    let refused = pi_fold(&folded.folder, &["export", "session.jsonl", "f_nowhere"]);
    let text = screen(&refused);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0), "{text}");
    assert!(text.contains("there is no fold \"f_nowhere\" in session.jsonl; it has\n") && text.ends_with(&listed), "{text}");
}

#[test]
fn a_replay_of_a_folder_names_the_file_that_is_broken_and_replays_the_others() {
    let folded = Folded::new("replay");
    let sessions = folded.folder.join("sessions/--home--");
    std::fs::create_dir_all(&sessions).expect("a folder");
    std::fs::copy(folded.folder.join("session.jsonl"), sessions.join("b.jsonl")).expect("copied");
    std::fs::copy(folded.folder.join("session.jsonl"), sessions.join("a.jsonl")).expect("copied");
    std::fs::write(sessions.join("0-broken.jsonl"), "{}").expect("written");
    std::fs::write(sessions.join("notes.txt"), "no session").expect("written");
    let output = pi_fold(&folded.folder, &["replay", "sessions", "--budget", "10000", "--json", "out.json"]);
    let text = screen(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("0-broken.jsonl: no header") && text.contains("1 of 3 could not be replayed"), "{text}");
    assert!(text.contains("2 sessions, budget 10,000 tokens") && text.contains("Folding would have cost"), "{text}");
    assert!(text.lines().filter(|line| !line.starts_with("not replayed")).all(|line| line.chars().count() <= 80), "{text}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(folded.folder.join("out.json")).expect("a report")).expect("JSON");
    let names: Vec<&str> = report["files"].as_array().expect("files").iter().filter_map(|file| file["file"].as_str()).collect();
    assert_eq!(names, ["sessions/--home--/a.jsonl", "sessions/--home--/b.jsonl"]);
    assert_eq!((report["refused"].as_array().map(Vec::len), report["violations"].as_array().map(Vec::len)), (Some(1), Some(0)));
    // Fourteen answers a session.
    assert_eq!((&report["paid"]["calls"], &report["paid"]["fresh"]), (&28.into(), &280.into()));
    assert!(report["arms"]["fold"]["commits"].as_u64() >= Some(2), "{report:#}");
    assert!(report["files"][0]["arms"]["native"]["dollars"].is_f64() && report["verdict"].is_array(), "{report:#}");
}

#[test]
fn a_replay_of_a_short_session_says_that_nothing_would_have_been_folded() {
    let folded = Folded::new("short");
    let output = pi_fold(&folded.folder, &["replay", "session.jsonl"]);
    let text = screen(&output).replace('\n', " ");
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("This session never reached 80% of the budget (160,000 of 200,000 tokens;"), "{text}");
    assert!(!text.contains("Folding would have cost"), "{text}");
}

#[test]
fn what_cannot_be_read_and_what_was_not_meant_exits_1_and_says_what_to_do() {
    let folder = folder("usage");
    std::fs::create_dir(folder.join("empty")).expect("a folder");
    for (arguments, why) in [
        (&[][..], "Usage: pi-fold <COMMAND>"),
        (&["verfy"], "a similar subcommand exists: 'verify'"),
        (&["verify"], "<FILE>"),
        (&["verify", "nowhere.jsonl"], "nowhere.jsonl could not be read"),
        (&["export", "nowhere.jsonl"], "nowhere.jsonl could not be read"),
        (&["export", "nowhere.jsonl", "-o", "out"], "<FOLD>"),
        (&["replay", "nowhere.jsonl"], "nowhere.jsonl could not be read"),
        (&["replay", "empty"], "there is no *.jsonl in this folder or below it"),
        (&["replay", "empty", "--budget", "9999"], "at least 10000"),
    ] {
        let output = pi_fold(&folder, arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", screen(&output));
        assert!(screen(&output).contains(why), "{arguments:?}: {}", screen(&output));
    }
    for (arguments, what) in [(&["--version"][..], "pi-fold 0.1.0"), (&["help"], "Usage: pi-fold"), (&["help", "verify"], "Usage: pi-fold verify")] {
        let output = pi_fold(&folder, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(what), "{arguments:?}: {}", screen(&output));
    }
    let _ = std::fs::remove_dir_all(folder);
}
