//! Sources of prices, and behavior without a price.

use crate::audit_harness::{audit_json, flyball, mixed_histories, test_dir};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const UNPRICED: &str =
    r#"{"type":"assistant.message","session":"s","text":"hi","usage":{"tokens_in":1000,"tokens_out":500}}"#;

fn audit_json_with(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Value {
    let args: Vec<&str> = ["audit", "runs", "--json"].into_iter().chain(args.iter().copied()).collect();
    let ran = flyball(folder, &args, env);
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn unpriced_tokens_are_reported_at_no_cost() {
    let folder = test_dir("unpriced");
    fs::write(folder.join("runs/one.jsonl"), format!("{UNPRICED}\n")).unwrap();
    let found = audit_json(&folder, &[]);
    assert_eq!((&found["spent"]["tokens"], &found["spent"]["cost_micro_usd"]), (&json!(1500), &json!(0)));
    assert_eq!(found["unpriced"], json!([{"model": "", "tokens": 1500}]));
    let ran = flyball(&folder, &["audit", "runs"], &[]);
    assert!(
        ran.out.contains("no price for events without a model: 1,500 tokens without a cost"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains('$'), "no cost is invented: {}", ran.out);
}

#[test]
fn invalid_price_list_is_rejected_from_any_source() {
    let folder = mixed_histories("price-list");
    fs::write(folder.join("mine.yaml"), "models: {m: {input: 1}}\n").unwrap();
    fs::create_dir_all(folder.join("home/.config/flyball")).unwrap();
    fs::copy(folder.join("mine.yaml"), folder.join("home/.config/flyball/prices.yaml")).unwrap();
    let home = folder.join("home").display().to_string();
    let refused = |args: &[&str], env: &[(&str, &str)]| {
        let args: Vec<&str> = ["audit", "runs"].into_iter().chain(args.iter().copied()).collect();
        let ran = flyball(&folder, &args, env);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{args:?} {env:?}");
        assert!(
            ran.err.contains("error[bad_prices]") && ran.err.contains("`m` has no `output`"),
            "{}",
            ran.err
        );
    };
    refused(&["--prices", "mine.yaml"], &[]);
    refused(&[], &[("FLYBALL_PRICES", "mine.yaml")]);
    refused(&[], &[("HOME", &home)]);
    // A named file takes precedence over a discovered one.
    fs::write(folder.join("good.yaml"), "models: {m: {input: 1, output: 2}}\n").unwrap();
    let found = audit_json_with(
        &folder,
        &["--prices", "good.yaml"],
        &[("FLYBALL_PRICES", "mine.yaml"), ("HOME", &home)],
    );
    assert_eq!(found["spent"]["cost_micro_usd"], 720_000, "the transcript's own cost counts");
    assert!(found["prices_dated"].as_str().unwrap().starts_with("20"), "{}", found["prices_dated"]);
}
