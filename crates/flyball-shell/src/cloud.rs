//! Command-line clients of services: only subcommands that unambiguously read.

use crate::options::{AllowedOptions, contains_word};
use crate::word::ShellWord;

const KUBECTL: AllowedOptions = AllowedOptions {
    flags: "AwfpR",
    valued: "nolLc",
    long: "--namespace= --all-namespaces --output= --selector= --field-selector= --watch --sort-by= --show-labels \
           --label-columns= --context= --cluster= --no-headers --container= --tail= --since= --since-time= --follow \
           --previous --timestamps --all-containers[= --containers --show-kind --ignore-not-found --limit-bytes= \
           --prefix --max-log-requests= --chunk-size= --raw= --recursive --api-group= --namespaced[= --verbs= --client",
    operands: usize::MAX,
};
const GH: AllowedOptions = AllowedOptions {
    flags: "cda",
    valued: "RLsSAlBHqtjbrue",
    long: "--repo= --limit= --state= --search= --author= --assignee= --label= --base= --head= --json= --jq= --template= \
           --comments --name-only --patch --color= --log --log-failed --job= --branch= --workflow= --status= --user= \
           --event= --archived --visibility= --language= --verbose --exit-status --required --yaml --ref= --all",
    operands: usize::MAX,
};
const HELM: AllowedOptions = AllowedOptions {
    flags: "Aadqr",
    valued: "nolf",
    long: "--namespace= --all-namespaces --all --output=",
    operands: 3,
};
const COMPOSE: AllowedOptions =
    AllowedOptions { flags: "", valued: "fp", long: "--file= --project-name= --profile=", operands: 0 };

/// `gcloud` groups with the verbs `list` and `describe`.
const GCLOUD_GROUPS: [&str; 16] = [
    "projects",
    "services",
    "compute instances",
    "compute disks",
    "compute networks",
    "compute regions",
    "compute zones",
    "container clusters",
    "functions",
    "run services",
    "sql instances",
    "storage buckets",
    "iam service-accounts",
    "artifacts repositories",
    "pubsub topics",
    "config configurations",
];

/// Whether a call is known to be read-only; `None` for programs that are not listed here.
pub(crate) fn is_read_only(name: &str, args: &[ShellWord]) -> Option<bool> {
    Some(match name {
        "kubectl" | "oc" => kubectl_is_read_only(args),
        "docker" | "podman" => docker_is_read_only(args),
        "docker-compose" => compose_is_read_only(args),
        "terraform" | "tofu" => terraform_is_read_only(args),
        "helm" => helm_is_read_only(args),
        "aws" => aws_is_read_only(args),
        "gcloud" => gcloud_is_read_only(args),
        "gh" => gh_is_read_only(args),
        _ => return None,
    })
}

/// The operands, if all options are allowed.
fn operands<'w>(allowed: &AllowedOptions, args: &'w [ShellWord]) -> Option<Vec<&'w str>> {
    let matched = allowed.matches(args, false)?;
    // The verb decides, so it must be known.
    let verbs = matched.operands.iter().take(2).map(|word| word.known());
    let mut words = verbs.collect::<Option<Vec<_>>>()?;
    words.extend(matched.operands.iter().skip(2).map(|word| word.text.as_str()));
    Some(words)
}

fn kubectl_is_read_only(args: &[ShellWord]) -> bool {
    matches!(
        operands(&KUBECTL, args).as_deref(),
        Some(
            ["get" | "describe" | "logs" | "explain" | "api-resources" | "api-versions" | "version", ..]
                | ["top", "pod" | "pods" | "po" | "node" | "nodes" | "no", ..]
                | ["cluster-info"]
                | ["config", "view" | "current-context" | "get-contexts" | "get-clusters"]
                | ["rollout", "status" | "history", ..]
                | ["auth", "can-i", ..]
        )
    )
}

/// The options of Docker's read-only subcommands write nothing, but Docker's global options can select another machine.
fn docker_is_read_only(args: &[ShellWord]) -> bool {
    let words: Vec<&str> = args.iter().map_while(ShellWord::known).collect();
    match words.as_slice() {
        ["compose", ..] => compose_is_read_only(args.get(1..).unwrap_or_default()),
        [
            "ps" | "images" | "logs" | "inspect" | "version" | "info" | "top" | "stats" | "port" | "diff"
            | "history",
            ..,
        ] => true,
        ["image", "ls" | "list" | "inspect" | "history", ..] => true,
        ["container", "ls" | "list" | "ps" | "inspect" | "logs" | "top" | "stats" | "port" | "diff", ..] => {
            true
        }
        [
            "volume" | "network" | "context" | "node" | "service" | "stack",
            "ls" | "list" | "inspect" | "ps",
            ..,
        ] => true,
        ["system", "df" | "info", ..] => true,
        _ => false,
    }
}

fn compose_is_read_only(args: &[ShellWord]) -> bool {
    let Some(matched) = COMPOSE.matches(args, true) else { return false };
    let verb = args.get(matched.leading).and_then(ShellWord::known).unwrap_or_default();
    contains_word("ps logs ls images top port version", verb)
}

fn terraform_is_read_only(args: &[ShellWord]) -> bool {
    let args = match args.split_first() {
        Some((first, rest)) if first.known().is_some_and(|text| text.starts_with("-chdir=")) => rest,
        _ => args,
    };
    let words: Option<Vec<&str>> = args.iter().map(ShellWord::known).collect();
    let Some(words) = words else { return false };
    let harmless = |word: &&str| {
        !word.starts_with('-')
            || contains_word("-json -raw -no-color -help", word)
            || word.starts_with("-state=")
    };
    if !words.iter().all(harmless) {
        return false;
    }
    matches!(
        words.as_slice(),
        ["show" | "output" | "validate" | "version" | "graph", ..]
            | ["providers"]
            | ["state", "list" | "show", ..]
            | ["workspace", "list" | "show"]
    )
}

fn helm_is_read_only(args: &[ShellWord]) -> bool {
    matches!(
        operands(&HELM, args).as_deref(),
        Some(["list" | "ls" | "status" | "history" | "version", ..])
            | Some(["get", "values" | "manifest" | "notes" | "all" | "hooks", _])
    )
}

fn aws_is_read_only(args: &[ShellWord]) -> bool {
    let words: Option<Vec<&str>> = args.iter().map(ShellWord::known).collect();
    let Some(words) = words else { return false };
    let risky = |word: &&str| ["--e", "--ca", "--cl", "--de"].iter().any(|start| word.starts_with(start));
    let plain = |word: &str| {
        word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    match words.as_slice() {
        ["s3", "ls", rest @ ..] => !rest.iter().any(risky),
        ["sts", "get-caller-identity", rest @ ..] => !rest.iter().any(risky),
        ["configure", "list"] => true,
        [service, verb, rest @ ..] if plain(service) && plain(verb) && !service.starts_with('-') => {
            (verb.starts_with("describe-") || verb.starts_with("list-")) && !rest.iter().any(risky)
        }
        _ => false,
    }
}

fn gcloud_is_read_only(args: &[ShellWord]) -> bool {
    let words: Option<Vec<&str>> = args.iter().map(ShellWord::known).collect();
    let Some(words) = words else { return false };
    let harmless = |word: &&str| {
        !word.starts_with('-')
            || ["--project=", "--format=", "--filter=", "--limit=", "--region=", "--zone=", "--sort-by="]
                .iter()
                .any(|option| word.starts_with(option))
    };
    if !words.iter().all(harmless) {
        return false;
    }
    match words.as_slice() {
        ["auth", "list", ..] | ["config", "list" | "get-value", ..] | ["info" | "version"] => true,
        [first, second, third, ..] if contains_word("list describe", third) => {
            GCLOUD_GROUPS.contains(&format!("{first} {second}").as_str())
        }
        [first, second, ..] if contains_word("list describe", second) => GCLOUD_GROUPS.contains(first),
        _ => false,
    }
}

fn gh_is_read_only(args: &[ShellWord]) -> bool {
    match operands(&GH, args).as_deref() {
        Some(["pr", "view" | "list" | "diff" | "status" | "checks", ..])
        | Some(["issue", "view" | "list" | "status", ..])
        | Some(["run" | "repo" | "release" | "workflow" | "label" | "gist", "view" | "list", ..])
        | Some(["search", _, ..])
        | Some(["auth", "status"])
        | Some(["status"]) => !args.iter().any(opens_browser),
        _ => false,
    }
}

/// `-w` and `--web` open a browser.
fn opens_browser(word: &ShellWord) -> bool {
    word.text == "--web"
        || (word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('w'))
}
