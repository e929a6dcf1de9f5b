//! What is refused of a settings file, and the line it stands in.

use fold_runtime::config::Settings;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A list of `[line, sentence]`.
pub fn refused(text: &str) -> String {
    let reasons = Settings::parse(text).err().unwrap_or_default();
    let places = places(text);
    Value::from(reasons.into_iter().map(|why| json!([line(&why, text, &places), why])).collect::<Vec<_>>()).to_string()
}

/// Every option with its value; a budget only where one is declared.
pub fn whole(text: &str) -> String {
    let settings = Settings::parse(text).unwrap_or_default();
    let share = |ppm: u32| f64::from(ppm) / 1_000_000.0;
    let (thresholds, palette) = (&settings.thresholds, &settings.palette);
    let mut options = json!({
        "thresholds": {
            "maxTarget": share(thresholds.max_target_ppm),
            "minTarget": share(thresholds.min_target_ppm),
            "consolidateAfter": thresholds.consolidate_after,
            "minFoldChars": thresholds.min_fold_chars,
        },
        "blacklistAutoFoldTools": settings.blacklist_auto_fold_tools,
        "toolFoldThreshold": share(settings.tool_fold_threshold_ppm),
        "preCommitNotice": settings.pre_commit_notice,
        "noticeLeadShare": share(settings.notice_lead_share_ppm),
        "palette": { "map": palette.map, "start": share(palette.start_ppm), "end": share(palette.end_ppm) },
    });
    if let Some(budget) = settings.provider_input_budget {
        options["providerInputBudget"] = budget.into();
    }
    options.to_string()
}

/// Where each option and each field of one stands, in bytes from the beginning, by its path.
fn places(text: &str) -> BTreeMap<String, usize> {
    let mut places = BTreeMap::new();
    for (name, at, value) in fields(text) {
        for (field, within, _) in fields(value) {
            places.insert(format!("{name}.{field}"), at + within);
        }
        places.insert(name, at);
    }
    places
}

/// The fields of a JSON object: name, offset of the value, value; none where it is no object.
fn fields(json: &str) -> Vec<(String, usize, &str)> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(json).unwrap_or_default();
    fields.into_iter().map(|(name, value)| (name, value.get().as_ptr() as usize - json.as_ptr() as usize, value.get())).collect()
}

/// The line, from 1, of what a refusal names: the longest path in it; what is no JSON says its line itself.
fn line(why: &str, text: &str, places: &BTreeMap<String, usize>) -> usize {
    if let Some(line) = why.rsplit_once(" at line ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok()) {
        return line;
    }
    let named = |path: &&String| why.starts_with(&format!("{path} ")) || why.contains(&format!("\"{path}\""));
    // A field that does not exist is quoted beside the option it stands in.
    let within =
        |path: &&String| path.split_once('.').is_some_and(|(option, field)| why.starts_with(option) && why.contains(&format!("\"{field}\"")));
    let found = places.keys().filter(|path| named(path) || within(path)).max_by_key(|path| path.len());
    found.map_or(1, |path| text[..places[path]].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_names_the_line_it_stands_in() {
        let lines = |text: &str| -> Vec<u64> {
            let refused: Vec<(u64, String)> = serde_json::from_str(&refused(text)).unwrap();
            refused.into_iter().map(|(line, _)| line).collect()
        };
        assert_eq!(lines("{\n  \"toolFoldThreshold\": 0,\n  \"preCommitNotice\": 7\n}"), [3]);
        assert_eq!(lines("{\n  \"toolFoldTreshold\": 0\n}"), [2]);
        assert_eq!(lines("{\n \"palette\": {\n  \"map\": \"batlow\",\n  \"start\": 3,\n  \"end\": 1}\n}"), [4]);
        assert_eq!(lines("{\n \"palette\": {\n  \"map\": \"batlow\",\n  \"begin\": 0,\n  \"end\": 1}\n}"), [4]);
        assert_eq!(lines("{\n\n  nonsense"), [3]);
        assert_eq!(lines("[]"), [1]);
        assert_eq!(lines("{}"), [] as [u64; 0]);
    }

    #[test]
    fn a_whole_text_of_settings_reads_back_as_the_same_settings() {
        let whole = whole(r#"{"providerInputBudget":100000,"blacklistAutoFoldTools":["read"],"toolFoldThreshold":0.25}"#);
        let settings = Settings::parse(&whole).unwrap();
        assert_eq!((settings.provider_input_budget, settings.tool_fold_threshold_ppm), (Some(100_000), 250_000));
        assert!(settings.blacklist_auto_fold_tools.contains("read"));
        assert_eq!(Settings::parse(&super::whole("{}")), Ok(Settings::default()));
    }
}
