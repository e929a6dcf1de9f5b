//! scratch
use fold_models::{cache::*, host::*, price::*, provider, tokens::TokenModel, wire};
use fold_runtime::session::Draft;
fn main() {
    let what: String = std::env::args().nth(1).unwrap_or_default();
    let bytes: usize = std::env::args().nth(2).and_then(|a| a.parse().ok()).unwrap_or(1500);
    let requests = 200_000u64;
    let mut ledger = Ledger::default();
    let prices = Prices::bundled();
    let row = prices.find("openai", "openai-chat", "gpt-5.5", "2026-12-01").unwrap();
    let body = "the quick brown fox jumps over the lazy dog \\n".repeat(bytes / 46 + 1);
    let mut total = 0u64;
    let mut sessions = 0;
    let mut now = 1_796_007_115_667u64;
    let mut done = 0;
    while done < requests {
        sessions += 1;
        let model = TokenModel::new(sessions, 8_000);
        let mut host = Host::new(1, now, model.clone());
        let mut chain = wire::Chain::new("m", 8_000);
        let mut cache = OpenAiCache::new(Rules::IN_MEMORY);
        host.user("\"go\"");
        let mut folded = 0usize;
        for turn in 0..1_000u64 {
            now += 5_000;
            host.set_now(now);
            if what != "host" {
                let request = host.request();
                chain.update(host.window(), request.first_change, &model);
                wire::validate(host.window()).unwrap();
                let read = cache.request(&chain, now, now + 2_000);
                let usage = provider::usage(chain.tokens(), read, 0, 100);
                ledger.bill("fold", row, usage.into());
                total += read + u64::from(host.over_threshold(1_000_000));
            }
            let content = format!(
                r#"[{{"type":"text","text":"{}"}},{{"type":"toolCall","id":"c{turn}","name":"read","arguments":{{"path":"src/file{turn}.rs"}}}}]"#,
                &body[..200]
            );
            host.assistant(&Answer {
                content: &content,
                stop: "toolUse",
                usage: provider::usage(1000, 0, 0, 100),
                provider: "openai",
                model: "gpt",
                error: None,
            });
            let content = format!(r#"[{{"type":"text","text":"{body}"}}]"#);
            host.tool_result(&ToolResult { call_id: &format!("c{turn}"), tool: "read", content: &content, is_error: false });
            if host.window().len() > 110 {
                // fold the oldest 60 messages
                let mut drafts = Vec::new();
                let ids: Vec<(String, bool)> = host.window()[1 + folded..61 + folded - folded % 2]
                    .iter()
                    .map(|s| (s.source.id().to_owned(), s.role == fold_models::shown::Role::ToolResult))
                    .collect();
                for (id, tool) in ids.iter().filter(|(_, tool)| *tool).chain(ids.iter().filter(|(_, tool)| !*tool)) {
                    let _ = tool;
                    drafts.push(Draft::ContextEdit { target: id.clone(), replacement: None });
                }
                host.boundary(&drafts).unwrap();
                folded = 0;
            }
            done += 1;
        }
    }
    println!("{requests} requests {sessions} sessions {total} {:?}", ledger.arm("fold"));
}
