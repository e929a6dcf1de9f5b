//! The commands as a person or a machine calls them: exit status, screen, JSON.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn xtask(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).current_dir(folder).args(arguments).output().expect("the command starts")
}

/// An empty folder of its own for each test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn screen(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn json(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join(name)).expect("a report")).expect("JSON")
}

#[test]
fn a_clean_run_exits_0_names_its_seeds_first_and_writes_what_the_screen_shows() {
    let folder = folder("clean");
    let output = xtask(&folder, &["sim", "--seeds", "0..4", "--json", "out.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", screen(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("seeds 0..4 of profile swarm"));
    let report = json(&folder, "out.json");
    for field in ["schema", "seeds", "sessions", "requests", "commits", "violations", "digest", "arms", "probes", "seconds"] {
        assert!(!report[field].is_null(), "{field} is missing");
    }
    for field in ["requests", "fresh", "cached", "output", "dollars", "rewrites", "peak", "folds_recovered"] {
        assert!(!report["arms"]["fold"][field].is_null(), "{field} is missing");
    }
    assert_eq!((&report["sessions"], &report["profile"], &report["sabotage"]), (&12.into(), &"swarm".into(), &Value::Null));
    assert!(screen(&output).contains(report["digest"].as_str().expect("a digest")));
}

#[test]
fn jobs_change_nothing_but_the_time() {
    let folder = folder("jobs");
    let digest = |jobs: &str| {
        let output = xtask(&folder, &["sim", "--seeds", "4..10", "--jobs", jobs, "--json", "out.json"]);
        assert_eq!(output.status.code(), Some(0), "{}", screen(&output));
        json(&folder, "out.json")["digest"].clone()
    };
    assert_eq!(digest("1"), digest("2"));
}

#[test]
fn a_violation_exits_42_says_how_to_see_it_again_and_stores_a_shrunk_plan_that_fails_too() {
    let folder = folder("violation");
    let sabotage = ["--sabotage", "wrong-digest", "--arm", "fold"];
    let output =
        xtask(&folder, &[&["sim", "--profile", "steady", "--seeds", "3..4", "--shrink", "120", "--json", "out.json"], &sabotage[..]].concat());
    assert_eq!(output.status.code(), Some(42), "{}", screen(&output));
    let text = screen(&output);
    assert!(text.contains("VIOLATION of lossless by fold, seed 3"), "{text}");
    assert!(text.contains("cargo xtask sim --profile steady --seeds 3..4 --arm fold --sabotage wrong-digest"), "{text}");
    let report = json(&folder, "out.json");
    assert_eq!((&report["violations"][0]["invariant"], &report["sabotage"]), (&"lossless".into(), &"wrong-digest".into()));
    let stored = &report["violations"][0]["plan"];
    assert!(stored["operations"].as_u64() < stored["operations_before"].as_u64(), "{stored}");
    let plan = stored["file"].as_str().expect("the path of the shrunk plan");
    assert!(text.contains(plan) && plan.starts_with("target/plans/lossless-3-wrong-digest-"), "{plan}: {text}");
    let again = xtask(&folder, &[&["sim", "--plan", plan], &sabotage[..]].concat());
    assert_eq!(again.status.code(), Some(42), "{}", screen(&again));
    let healed = xtask(&folder, &["sim", "--plan", plan, "--arm", "fold"]);
    assert_eq!(healed.status.code(), Some(0), "{}", screen(&healed));
}

#[test]
fn no_stored_plan_takes_the_place_of_another() {
    let folder = folder("stored");
    let run = |tries: &str| {
        let arguments = ["sim", "--profile", "steady", "--seeds", "3..4", "--arm", "fold", "--sabotage", "wrong-digest", "--json", "out.json"];
        assert_eq!(xtask(&folder, &[&arguments[..], &["--shrink", tries]].concat()).status.code(), Some(42));
        folder.join(json(&folder, "out.json")["violations"][0]["plan"]["file"].as_str().expect("a path"))
    };
    let shrunk = run("20");
    let before = std::fs::read(&shrunk).expect("a plan");
    let whole = run("0");
    assert_ne!(shrunk, whole);
    assert_eq!(std::fs::read(&shrunk).expect("a plan"), before);
    assert!(std::fs::read(&whole).expect("a plan").len() > before.len());
}

#[test]
fn a_trace_of_a_stored_plan_names_that_plan_and_writes_what_it_ran_under() {
    let folder = folder("traced");
    let sabotage = ["--sabotage", "wrong-digest", "--arm", "fold"];
    xtask(&folder, &[&["sim", "--profile", "steady", "--seeds", "3..4", "--shrink", "20", "--json", "out.json"], &sabotage[..]].concat());
    let plan = json(&folder, "out.json")["violations"][0]["plan"]["file"].as_str().expect("a path").to_owned();
    let output = xtask(&folder, &[&["trace", "--plan", &plan, "--json", "out.json"], &sabotage[..]].concat());
    assert_eq!(output.status.code(), Some(42), "{}", screen(&output));
    let again = format!("cargo xtask sim --plan {plan} --arm fold --sabotage wrong-digest");
    assert!(screen(&output).contains(&format!("again:    {again}")), "{}", screen(&output));
    let report = json(&folder, "out.json");
    for (field, value) in [("plan", &*plan), ("profile", "steady"), ("arm", "fold"), ("sabotage", "wrong-digest")] {
        assert_eq!(report[field], value, "{field}");
    }
    assert!(report["window"].is_u64() && report["overhead"].is_u64() && report["settings"].is_object(), "{report:#}");
    assert_eq!(report["violation"]["reproduce"], again);
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_the_work_starts() {
    let folder = folder("unwritable");
    std::fs::create_dir(folder.join("folder")).expect("a folder");
    for path in ["nowhere/out.json", "folder", "new/"] {
        let output = xtask(&folder, &["sim", "--seeds", "0..4", "--json", path]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{path}: {}", screen(&output));
        assert!(screen(&output).contains(&format!("--json {path} cannot be written")), "{}", screen(&output));
    }
}

#[test]
fn a_report_is_replaced_whole_or_not_at_all_and_no_session_is_written_over() {
    let folder = folder("replaced");
    let files = || std::fs::read_dir(&folder).expect("a folder").count();
    std::fs::write(folder.join("out.json"), "of before").expect("written");
    assert_eq!(xtask(&folder, &["sim", "--plan", "nowhere.json", "--json", "out.json"]).status.code(), Some(1));
    assert_eq!((std::fs::read_to_string(folder.join("out.json")).expect("a file").as_str(), files()), ("of before", 1));
    assert_eq!(xtask(&folder, &["sim", "--seeds", "0..1", "--json", "out.json"]).status.code(), Some(0));
    assert_eq!((json(&folder, "out.json")["sessions"].as_u64(), files()), (Some(3), 1));
    let session = HEADER.to_owned() + "{\"type\":\"message\",\"id\":\"a\",\"message\":{\"role\":\"user\",\"content\":\"x\"}}\n";
    std::fs::write(folder.join("session.jsonl"), &session).expect("written");
    for command in ["replay", "inspect"] {
        let output = xtask(&folder, &[command, "session.jsonl", "--json", "./session.jsonl"]);
        assert_eq!(output.status.code(), Some(1), "{}", screen(&output));
        assert!(screen(&output).contains("a file that is read here"), "{}", screen(&output));
        assert_eq!(std::fs::read_to_string(folder.join("session.jsonl")).expect("a file"), session);
    }
}

#[test]
fn a_replay_that_stops_says_what_room_the_window_keeps() {
    let folder = folder("full");
    let user = r#"{"role":"user","content":"go on"}"#;
    // No later answer has made it finished work, so that nothing may fold it.
    let answer = format!(r#"{{"role":"assistant","stopReason":"stop","content":[{{"type":"text","text":"{}"}}]}}"#, "word ".repeat(14_000));
    let mut file = HEADER.to_owned();
    for (at, message) in [user, &answer, user, &answer].into_iter().enumerate() {
        let parent = if at == 0 { "null".to_owned() } else { format!("\"m{}\"", at - 1) };
        file += &format!("{{\"type\":\"message\",\"id\":\"m{at}\",\"parentId\":{parent},\"message\":{message}}}\n");
    }
    std::fs::write(folder.join("full.jsonl"), &file).expect("written");
    let output = xtask(&folder, &["replay", "full.jsonl", "--budget", "20000", "--arm", "fold"]);
    let text = screen(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("fold stopped: request 2 would hold about "), "{text}");
    assert!(text.contains("With folding, the session would have ended after 1 of 1 requests, at a full window."), "{text}");
    assert!(text.contains("where 17000 may leave: the window of 20000 keeps 2000 for an answer and 1000 for the estimate's error"), "{text}");
}

#[test]
fn a_ledger_is_billed_again_and_exits_42_where_the_bill_is_another_one() {
    let folder = folder("ledger");
    let run = |paid: &str| {
        format!(
            r#"{{"runs":[{{"runId":"r1","arm":"pifold","usage":{{"requests":2,"inputFresh":1000000,"cacheRead":2000000,"cacheWrite":0,"output":1000}},
            "billed":{{"messageCallsUsd":{paid},"longContextCalls":0,"peakPromptTokens":240000,"outOfBandUsd":0,"totalUsd":{paid}}}}}]}}"#
        )
    };
    for (paid, status, verdict) in [("6.03", 0, "reproduced to the cent"), ("6.04", 42, "contradicted")] {
        std::fs::write(folder.join("ledger.json"), run(paid)).expect("written");
        let output = xtask(&folder, &["ledger", "ledger.json", "--json", "out.json"]);
        assert_eq!(output.status.code(), Some(status), "{}", screen(&output));
        assert!(screen(&output).contains(verdict), "{}", screen(&output));
        let report = json(&folder, "out.json");
        assert_eq!((&report["contradicted"], &report["files"][0]["runs"][0]["verdict"]), (&(status == 42).into(), &verdict.into()));
        assert_eq!(report["files"][0]["runs"][0]["base_nano_dollars"], 6_030_000_000_u64);
    }
    assert_eq!(xtask(&folder, &["ledger", "out.json"]).status.code(), Some(1), "no ledger");
    assert!(screen(&xtask(&folder, &["ledger", "ledger.json", "--model", "nobody"])).contains("there are some of gpt-5.4"));
}

#[test]
fn a_campaign_is_billed_before_every_cache_and_no_cache_reads_more_than_was_sent() {
    let folder = folder("campaign");
    let output = xtask(&folder, &["campaign", "--json", "out.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", screen(&output));
    let report = json(&folder, "out.json");
    let arms = report["arms"].as_array().expect("arms");
    let caches = |arm: &str| arms.iter().find(|of| of["arm"] == arm).expect("the arm")["caches"].as_array().expect("caches").clone();
    let prompt = |of: &Value| ["read", "written", "fresh"].iter().map(|part| of[part].as_u64().expect("tokens")).sum::<u64>();
    for arm in ["fold", "native"] {
        let all = caches(arm);
        assert!(all.len() == 9 && all.iter().all(|of| prompt(of) == prompt(&all[0])), "each cache is asked for the same tokens");
        // Larger steps read less, a token at a time most.
        let read = |cache: &str| all.iter().find(|of| of["cache"] == cache).expect("a cache")["read"].as_u64();
        assert!(read("steps of 2,048") < read("steps of 128") && read("steps of 128") < read("radix"));
        assert!(read("markers, 5 minutes") <= read("markers, the spare one behind the folds"));
    }
    // Where there is a price, folding costs less.
    let dollars = |arm: &str| caches(arm).iter().map(|of| of["nano_dollars"].as_u64()).collect::<Vec<_>>();
    assert!(dollars("fold").iter().zip(dollars("native")).filter(|(fold, native)| fold.is_some() && **fold < *native).count() >= 6);
}

/// Where the published extracts are beside the project: every bill in them is the one that our prices make.
#[test]
fn the_published_ledgers_reproduce() {
    let ledgers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/ledgers");
    let file = |name: &str| ledgers.join(name).display().to_string();
    if !ledgers.is_dir() {
        return;
    }
    let folder = folder("published");
    let output = xtask(&folder, &["ledger", &file("steward-campaign-metrics.json"), &file("hidden-mass-results.json"), "--json", "out.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", screen(&output));
    let report = json(&folder, "out.json");
    let count = |at: usize, verdict: &str| {
        report["files"][at]["runs"]
            .as_array()
            .expect("runs")
            .iter()
            .filter(|run| run["verdict"].as_str().is_some_and(|words| words.starts_with(verdict)))
            .count()
    };
    assert_eq!([count(0, "reproduced"), count(0, "adds up"), count(1, "reproduced"), count(1, "adds up")], [6, 6, 2, 2]);
    let text = screen(&output);
    assert!(text.contains("native: 6 runs, 157.9776 dollars at the base rates, paid 278.3162"), "{text}");
    assert!(text.contains("pifold: 6 runs, 144.1489 dollars at the base rates, paid 144.1489"), "{text}");
}

#[test]
fn inspect_names_fold_records_that_do_not_count_and_says_why() {
    let folder = folder("uncounted");
    let record = |id: &str, parent: &str, data: &str| {
        format!("{{\"type\":\"custom\",\"id\":\"{id}\",\"parentId\":\"{parent}\",\"customType\":\"pi-fold.commit\",\"data\":{data}}}\n")
    };
    let mut file = HEADER.to_owned();
    file += "{\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"message\":{\"role\":\"user\",\"content\":\"x\"}}\n";
    file += &record("counts", "a", r#"{"v":1,"trigger":"recovery","brief_version":1,"bound":100,"folds":[],"edits":[]}"#);
    file += &record("newer", "counts", r#"{"v":2,"folds":[],"edits":[]}"#);
    file += &record("opens", "newer", r#"{"v":1,"trigger":"expand","folds":[],"edits":[],"opens":["f_0123456789ab"]}"#);
    std::fs::write(folder.join("session.jsonl"), &file).expect("written");
    let output = xtask(&folder, &["inspect", "session.jsonl", "--json", "out.json"]);
    let text = screen(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("the fold record newer does not count") && text.contains("the fold record opens does not count"), "{text}");
    assert!(!text.contains("record counts"), "{text}");
    let uncounted = &json(&folder, "out.json")["files"][0]["uncounted"];
    assert_eq!(uncounted.as_array().map(Vec::len), Some(2));
    assert!(uncounted[1]["why"].as_str().expect("a reason").contains("opens, closes or dissolves"), "{uncounted}");
}

#[test]
fn a_trace_tells_every_step() {
    let output = xtask(&folder("trace"), &["trace", "3", "--profile", "steady", "--at", "40"]);
    assert_eq!(output.status.code(), Some(0), "{}", screen(&output));
    let text = screen(&output);
    assert!(text.contains("│ 40 answer") && text.contains("│ 43 answer") && !text.contains("│ 44 answer"), "{text}");
}

const HEADER: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n";

#[test]
fn bad_input_is_refused_by_name_with_exit_1() {
    let folder = folder("bad");
    let cases: [(&str, &[u8], &str); 4] = [
        ("headless.jsonl", b"{\"type\":\"message\",\"id\":\"a\",\"message\":{\"role\":\"user\",\"content\":\"x\"}}\n", "no header"),
        ("empty.jsonl", HEADER.as_bytes(), "no message"),
        ("binary.jsonl", b"\xff\xfe\x00", "not UTF-8"),
        ("nothing.jsonl", b"", "no header"),
    ];
    for (name, bytes, why) in cases {
        std::fs::write(folder.join(name), bytes).expect("written");
        let output = xtask(&folder, &["replay", name]);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", screen(&output));
        assert!(screen(&output).contains(why) && screen(&output).contains(name), "{name}: {}", screen(&output));
    }
    for (arguments, why) in [
        (["sim", "--seeds", "5..5"], "a range A..B"),
        (["sim", "--profile", "swam"], "there is no profile"),
        (["sim", "--arm", "fould"], "there is no arm"),
        (["sim", "--plan", "nowhere.json"], "could not be read"),
        (["sim", "--jobs", "0"], "a number from 1 up"),
        (["replay", "--budget", "20k"], "a whole number of tokens, such as 60000"),
        (["replay", "--budget", "9999"], "at least 10000"),
    ] {
        let output = xtask(&folder, &arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", screen(&output));
        assert!(screen(&output).contains(why), "{arguments:?}: {}", screen(&output));
    }
}

#[test]
fn odd_files_are_reported_line_by_line_and_replayed_all_the_same() {
    let folder = folder("odd");
    let message =
        |id: &str, parent: &str, message: &str| format!("{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":{parent},\"message\":{message}}}\n");
    let call = r#"{"role":"assistant","stopReason":"toolUse","content":[{"type":"toolCall","id":"c","name":"ls","arguments":{}}],"usage":{"input":9,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":10}}"#;
    let orphan = r#"{"role":"toolResult","toolCallId":"nobody","toolName":"ls","content":[]}"#;
    let mut file = HEADER.to_owned();
    file += &message("u", "\"gone\"", r#"{"role":"user","content":"hi"}"#);
    file += "not json\n";
    file += &message("a", "\"u\"", call);
    file += &message("o", "\"a\"", orphan);
    file += &message("o", "\"a\"", orphan);
    // Long ids, ids that the host would give itself, no time stamps, roles that Pi does not edit: enough of them to be folded.
    let long = "i".repeat(3_000);
    for turn in 0..30 {
        let parent = match turn {
            0 => "o".to_owned(),
            10 => "extra".to_owned(),
            _ => format!("{:08x}", 2 * turn),
        };
        let answer = call.replace("\"c\"", &format!("\"c{turn}\""));
        let id = if turn == 3 { long.clone() } else { format!("{:08x}", 2 * turn + 1) };
        file += &message(&id, &format!("\"{parent}\""), &answer);
        let result = format!(
            r#"{{"role":"toolResult","toolCallId":"c{turn}","toolName":"ls","content":[{{"type": "text", "text":"{}"}}]}}"#,
            "word ".repeat(700)
        );
        file += &message(&format!("{:08x}", 2 * turn + 2), &format!("\"{id}\""), &result);
        if turn == 9 {
            file += &message("extra", &format!("\"{:08x}\"", 2 * turn + 2), r#"{"role":"custom","customType":"z","content":"x","display":true}"#);
        }
    }
    std::fs::write(folder.join("odd.jsonl"), &file).expect("written");
    let output = xtask(&folder, &["replay", "odd.jsonl", "--budget", "20000", "--json", "out.json"]);
    let text = screen(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in
        ["line 3", "names the parent gone", "two entries have the id o", "the call c of entry a has no result", "result in entry o has no call"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let report = json(&folder, "out.json");
    assert_eq!(report["violations"], serde_json::json!([]));
    assert!(report["arms"]["fold"]["commits"].as_u64() >= Some(1), "{report:#}");
}

#[test]
fn a_plan_that_no_world_can_run_is_refused() {
    let folder = folder("plans");
    let plan = |density: u64, ops: &str| {
        format!(
            r#"{{"schema":1,"seed":18446744073709551615,"profile":"swarm","settings":{{}},"window":20000,"world":{{"density":{{"constant":{density}}},"overhead_tokens":0,"reports_usage":true,"cache_ttl_ms":300000,"model":"chat"}},"ops":[{ops}]}}"#
        )
    };
    for (text, code, why) in [
        (plan(4_000, ""), 0, "violations: 0"),
        (plan(0, ""), 1, "world.density"),
        (plan(4_000, r#"{"op":"idle","ms":18446744073709551615}"#), 1, "a century"),
        (plan(4_000, r#"{"op":"modelSwitch","window_ppm":1,"model":"chat"}"#), 1, "at least 10,000"),
    ] {
        std::fs::write(folder.join("plan.json"), text).expect("written");
        let output = xtask(&folder, &["sim", "--plan", "plan.json"]);
        assert_eq!(output.status.code(), Some(code), "{}", screen(&output));
        assert!(screen(&output).contains(why), "{}", screen(&output));
    }
}
