//! Tests that broken links in the pages at the repository root are found.

use super::missing_targets;
use crate::command::repo_root;

#[test]
fn links_to_missing_files_are_reported() {
    let text = "[a](README.md) [b](docs/nowhere.md#x) ![c](docs/none.png) [d](https://example.org/x) [e](#here)\n\
                ```sh\n[f](inside/code.md)\n```\n";
    assert_eq!(missing_targets(text, &repo_root()), ["docs/nowhere.md", "docs/none.png"]);
}
