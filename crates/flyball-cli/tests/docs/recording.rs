//! Records the start page's picture: runs the tutorial blocks marked `<!-- record -->` in a real terminal.

use crate::blocks::Page;
use crate::kit::repo_root;
use crate::page_runner::{PageFolder, block_runs, runnable};
use crate::pty::PtySession;
use crate::terminal_svg::{TerminalStep, render};

const PAGE: &str = "docs/tutorial.md";
const PICTURE: &str = "docs/images/stopped-loop.svg";
/// Columns and rows of the terminal. The number of rows is large, because all output is shown.
const SIZE: (u16, u16) = (96, 200);

#[test]
fn the_recording_shows_what_the_tutorial_prints() {
    let page = Page::read(PAGE);
    let blocks = runnable(&page);
    let last = blocks.iter().rposition(|block| block.directive("record").is_some());
    let blocks = &blocks[..=last.expect("a block with a `record` directive")];
    let folder = PageFolder::new("recording");
    let ended = PtySession::start_command(folder.shell(blocks), SIZE).wait();
    let runs = block_runs(&folder.shown(&ended.text), blocks.len());
    let recorded = blocks.iter().zip(&runs).filter(|(block, _)| block.directive("record").is_some());
    let outputs: Vec<(&str, String)> = recorded
        .map(|(block, run)| (block.text.trim_end(), beginning(&run.output, block.directive("record"))))
        .collect();
    let steps: Vec<TerminalStep<'_>> =
        outputs.iter().map(|(command, output)| TerminalStep { command, output: output.as_str() }).collect();
    let picture = render("A loop is stopped before the sixth identical call", &steps, usize::from(SIZE.0));
    let path = repo_root().join(PICTURE);
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        std::fs::write(&path, &picture).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == picture,
        "{PICTURE} is stale: FLYBALL_BLESS=1 cargo test -p flyball-cli --test docs"
    );
}

/// The first lines of an output, if the directive limits them (`record: 12 lines`).
fn beginning(output: &str, limit: Option<&str>) -> String {
    let limit =
        limit.and_then(|text| text.strip_suffix(" lines")).map(|number| number.parse::<usize>().unwrap());
    let lines: Vec<&str> = output.lines().take(limit.unwrap_or(usize::MAX)).collect();
    lines.join("\n")
}
