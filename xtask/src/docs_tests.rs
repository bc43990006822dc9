//! Broken links in the pages at the root of the repository are found.

use super::missing_targets;
use crate::run::root;

#[test]
fn links_to_missing_files_are_reported() {
    let text = "[a](README.md) [b](docs/nowhere.md#x) ![c](docs/none.png) [d](https://example.org/x) [e](#here)\n\
                ```sh\n[f](inside/code.md)\n```\n";
    assert_eq!(missing_targets(text, &root()), ["docs/nowhere.md", "docs/none.png"]);
}
