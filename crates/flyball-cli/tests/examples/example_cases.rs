//! The examples, each as a list of operator commands with their exit codes.

use crate::example_harness::{ExampleDir, repo_root};

/// One operator command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExampleStage {
    /// `flyball run`.
    Run,
    /// `flyball resume`.
    Resume,
    /// `flyball release` of a guard, which exits with 0.
    Release(&'static str),
    /// `flyball send` of a message, which continues the run.
    Send(&'static str),
}

/// An example.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExampleCase {
    /// Its name, for folders and messages.
    pub(crate) name: &'static str,
    /// The workflow file, relative to `examples`.
    pub(crate) file: &'static str,
    /// The session in which it runs.
    pub(crate) session: &'static str,
    /// Maximum number of gate runs per answer: failing tests may be run again to detect flaky ones.
    pub(crate) max_gate_runs: usize,
    /// The commands with their exit codes.
    pub(crate) stages: &'static [(ExampleStage, i32)],
}

/// All runnable examples.
pub(crate) const ALL: &[ExampleCase] = &[
    ExampleCase {
        name: "fix-until-green",
        file: "fix-until-green",
        session: "green",
        max_gate_runs: 2,
        stages: &[(ExampleStage::Run, 0)],
    },
    ExampleCase {
        name: "fix-until-green-stuck",
        file: "fix-until-green/stuck",
        session: "stuck",
        max_gate_runs: 2,
        stages: &[(ExampleStage::Run, 3)],
    },
    ExampleCase {
        name: "ralph",
        file: "ralph",
        session: "ralph",
        max_gate_runs: 1,
        stages: &[(ExampleStage::Run, 0)],
    },
    ExampleCase {
        name: "ralph-never",
        file: "ralph/never.yaml",
        session: "never",
        max_gate_runs: 1,
        stages: &[(ExampleStage::Run, 5)],
    },
    ExampleCase {
        name: "issues",
        file: "issues",
        session: "issue",
        max_gate_runs: 1,
        stages: &[
            (ExampleStage::Run, 4),
            (ExampleStage::Release("visits"), 0),
            (ExampleStage::Resume, 4),
            (ExampleStage::Send("yes"), 0),
        ],
    },
    ExampleCase {
        name: "issues-bounce",
        file: "issues/bounce.yaml",
        session: "bounce",
        max_gate_runs: 1,
        stages: &[(ExampleStage::Run, 4)],
    },
    ExampleCase {
        name: "coder-verifier",
        file: "coder-verifier",
        session: "coder",
        max_gate_runs: 1,
        stages: &[(ExampleStage::Run, 0)],
    },
    ExampleCase {
        name: "planner-reviewer",
        file: "planner-reviewer",
        session: "planner",
        max_gate_runs: 1,
        stages: &[(ExampleStage::Run, 0)],
    },
    ExampleCase {
        name: "planner-quorum",
        file: "planner-reviewer/quorum.yaml",
        session: "quorum",
        max_gate_runs: 1,
        stages: &[(ExampleStage::Run, 0)],
    },
    ExampleCase {
        name: "tasks",
        file: "tasks",
        session: "chat",
        max_gate_runs: 1,
        stages: &[
            (ExampleStage::Run, 4),
            (ExampleStage::Send("Удали 2 задачи про Варю"), 4),
            (ExampleStage::Send("Да"), 0),
        ],
    },
    ExampleCase {
        name: "booking",
        file: "booking",
        session: "booking",
        max_gate_runs: 1,
        stages: &[
            (ExampleStage::Run, 4),
            (ExampleStage::Send("Book a flight from Madrid to Paris on 2026-12-09"), 4),
            (ExampleStage::Send("no, I meant Lisbon"), 4),
            (ExampleStage::Send("what does it cost?"), 4),
            (ExampleStage::Send("12"), 4),
            (ExampleStage::Send("2"), 4),
            (ExampleStage::Send("yes, but make it 3"), 4),
            (ExampleStage::Send("yes"), 0),
        ],
    },
    ExampleCase {
        name: "docs-writer",
        file: "docs-writer",
        session: "docs",
        max_gate_runs: 1,
        stages: &[(ExampleStage::Run, 0)],
    },
];

impl ExampleCase {
    /// The example with a name.
    pub(crate) fn by_name(name: &str) -> ExampleCase {
        *ALL.iter().find(|case| case.name == name).expect("an example")
    }

    /// The command line of a stage.
    pub(crate) fn args(&self, stage: ExampleStage) -> Vec<String> {
        let session = self.session;
        let file = repo_root().join("examples").join(self.file).display().to_string();
        let words: Vec<&str> = match stage {
            ExampleStage::Run => vec!["run", &file, "--session", session, "--json"],
            ExampleStage::Resume => vec!["resume", session, "--json"],
            ExampleStage::Release(guard) => {
                vec!["release", session, "--guard", guard, "--why", "two more rounds"]
            }
            ExampleStage::Send(text) => vec!["send", session, text, "--json"],
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// Runs all stages without a kill.
    pub(crate) fn run_all_stages(&self, dir: &ExampleDir) {
        for (stage, code) in self.stages {
            let args = self.args(*stage);
            let ran = dir.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(ran.code, *code, "{} {args:?}: {}{}", self.name, ran.out, ran.err);
        }
    }
}
