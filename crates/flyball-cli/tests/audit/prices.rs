//! Where prices come from, and what happens where there is none.

use crate::history::{flyball, folder, mixed, report};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const UNPRICED: &str =
    r#"{"type":"assistant.message","session":"s","text":"hi","usage":{"tokens_in":1000,"tokens_out":500}}"#;

fn json(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Value {
    let args: Vec<&str> = ["audit", "runs", "--json"].into_iter().chain(args.iter().copied()).collect();
    let ran = flyball(folder, &args, env);
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn tokens_without_a_model_or_a_price_are_told_and_cost_nothing() {
    let folder = folder("unpriced");
    fs::write(folder.join("runs/one.jsonl"), format!("{UNPRICED}\n")).unwrap();
    let found = report(&folder, &[]);
    assert_eq!((&found["spent"]["tokens"], &found["spent"]["cost_micro_usd"]), (&json!(1500), &json!(0)));
    assert_eq!(found["unpriced"], json!([{"model": "", "tokens": 1500}]));
    let ran = flyball(&folder, &["audit", "runs"], &[]);
    assert!(
        ran.out.contains("no price for events that name no model: 1,500 tokens without a cost"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains('$'), "no money is made up: {}", ran.out);
}

#[test]
fn a_list_that_cannot_be_used_is_refused_wherever_it_comes_from() {
    let folder = mixed("price-list");
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
    // What is named wins over what is found.
    fs::write(folder.join("good.yaml"), "models: {m: {input: 1, output: 2}}\n").unwrap();
    let found =
        json(&folder, &["--prices", "good.yaml"], &[("FLYBALL_PRICES", "mine.yaml"), ("HOME", &home)]);
    assert_eq!(found["spent"]["cost_micro_usd"], 720_000, "the transcript's own cost stands");
    assert!(found["prices_dated"].as_str().unwrap().starts_with("20"), "{}", found["prices_dated"]);
}
