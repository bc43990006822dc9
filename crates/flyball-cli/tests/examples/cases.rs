//! The examples, each as the commands that a person gives, with the exit code of each.

use crate::kit::{Place, root};

/// One command of a person.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stage {
    /// `flyball run`.
    Run,
    /// `flyball resume`.
    Resume,
    /// `flyball release` of a guard; it ends with 0.
    Release(&'static str),
    /// `flyball send` of some words, which goes on with the run.
    Send(&'static str),
}

/// An example.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// Its name, for folders and messages.
    pub(crate) name: &'static str,
    /// The workflow, below `examples`.
    pub(crate) file: &'static str,
    /// The session that it runs in.
    pub(crate) session: &'static str,
    /// How often its gate is run for one answer at most: tests that fail may be run again, to find those that waver.
    pub(crate) tries: usize,
    /// The commands, with their exit codes.
    pub(crate) stages: &'static [(Stage, i32)],
}

/// All examples that can be run.
pub(crate) const ALL: &[Case] = &[
    Case {
        name: "fix-until-green",
        file: "fix-until-green",
        session: "green",
        tries: 2,
        stages: &[(Stage::Run, 0)],
    },
    Case {
        name: "fix-until-green-stuck",
        file: "fix-until-green/stuck",
        session: "stuck",
        tries: 2,
        stages: &[(Stage::Run, 3)],
    },
    Case { name: "ralph", file: "ralph", session: "ralph", tries: 1, stages: &[(Stage::Run, 0)] },
    Case {
        name: "ralph-never",
        file: "ralph/never.yaml",
        session: "never",
        tries: 1,
        stages: &[(Stage::Run, 5)],
    },
    Case {
        name: "issues",
        file: "issues",
        session: "issue",
        tries: 1,
        stages: &[
            (Stage::Run, 4),
            (Stage::Release("visits"), 0),
            (Stage::Resume, 4),
            (Stage::Send("yes"), 0),
        ],
    },
    Case {
        name: "issues-bounce",
        file: "issues/bounce.yaml",
        session: "bounce",
        tries: 1,
        stages: &[(Stage::Run, 4)],
    },
    Case {
        name: "coder-verifier",
        file: "coder-verifier",
        session: "coder",
        tries: 1,
        stages: &[(Stage::Run, 0)],
    },
    Case {
        name: "planner-reviewer",
        file: "planner-reviewer",
        session: "planner",
        tries: 1,
        stages: &[(Stage::Run, 0)],
    },
    Case {
        name: "planner-quorum",
        file: "planner-reviewer/quorum.yaml",
        session: "quorum",
        tries: 1,
        stages: &[(Stage::Run, 0)],
    },
    Case {
        name: "tasks",
        file: "tasks",
        session: "chat",
        tries: 1,
        stages: &[(Stage::Run, 4), (Stage::Send("Удали 2 задачи про Варю"), 4), (Stage::Send("Да"), 0)],
    },
    Case {
        name: "booking",
        file: "booking",
        session: "booking",
        tries: 1,
        stages: &[
            (Stage::Run, 4),
            (Stage::Send("Book a flight from Madrid to Paris on 2026-12-09"), 4),
            (Stage::Send("no, I meant Lisbon"), 4),
            (Stage::Send("what does it cost?"), 4),
            (Stage::Send("12"), 4),
            (Stage::Send("2"), 4),
            (Stage::Send("yes, but make it 3"), 4),
            (Stage::Send("yes"), 0),
        ],
    },
    Case { name: "docs-writer", file: "docs-writer", session: "docs", tries: 1, stages: &[(Stage::Run, 0)] },
];

impl Case {
    /// The example of a name.
    pub(crate) fn named(name: &str) -> Case {
        *ALL.iter().find(|case| case.name == name).expect("an example")
    }

    /// The command line of a stage.
    pub(crate) fn args(&self, stage: Stage) -> Vec<String> {
        let session = self.session;
        let file = root().join("examples").join(self.file).display().to_string();
        let words: Vec<&str> = match stage {
            Stage::Run => vec!["run", &file, "--session", session, "--json"],
            Stage::Resume => vec!["resume", session, "--json"],
            Stage::Release(guard) => vec!["release", session, "--guard", guard, "--why", "two more rounds"],
            Stage::Send(text) => vec!["send", session, text, "--json"],
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// All stages without a kill.
    pub(crate) fn play(&self, place: &Place) {
        for (stage, code) in self.stages {
            let args = self.args(*stage);
            let ran = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(ran.code, *code, "{} {args:?}: {}{}", self.name, ran.out, ran.err);
        }
    }
}
