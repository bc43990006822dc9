//! Tests of tools and commands that write, read or poll.

use super::guess_tool_effect;
use crate::policy::ToolEffect;
use serde_json::{Value, json};

#[test]
fn tool_effect_is_guessed_from_name_and_arguments() {
    let shell = |command: &str| json!({ "command": command });
    let cases: Vec<(&str, Value, ToolEffect)> = vec![
        ("bash", shell("grep -rn needle src"), ToolEffect::Read),
        ("bash", shell("ls -la 2>&1 | head"), ToolEffect::Read),
        ("bash", shell("cat a.py > b.py"), ToolEffect::Write),
        ("bash", shell("cat > a.py << 'EOF'\nprint(1)\nEOF"), ToolEffect::Write),
        ("bash", shell("python run.py > /dev/null"), ToolEffect::Read),
        ("bash", shell("grep 'a > b' file"), ToolEffect::Read),
        ("bash", shell("sed -n 1,5p a.py"), ToolEffect::Read),
        ("bash", shell("sed -i 's/a/b/' a.py"), ToolEffect::Write),
        ("bash", shell("cd /x && rm -rf build"), ToolEffect::Write),
        ("bash", shell("git status"), ToolEffect::Read),
        ("bash", shell("git commit -m x"), ToolEffect::Write),
        ("bash", shell("git -C sub checkout main"), ToolEffect::Write),
        ("bash", shell("pytest -x"), ToolEffect::Read),
        ("bash", shell("FOO=1 pip install x"), ToolEffect::Write),
        ("bash", json!({"_truncated": "{\"command\":\"cat <<'EOF' > /app/a.py\\nimport"}), ToolEffect::Write),
        ("bash", json!({"cmd": "ls"}), ToolEffect::Read),
        ("Bash", shell("echo hi"), ToolEffect::Read),
        ("str_replace_editor", json!({"command": "view", "path": "a"}), ToolEffect::Read),
        ("str_replace_editor", json!({"command": "create", "path": "a"}), ToolEffect::Write),
        ("Edit", json!({"file_path": "a"}), ToolEffect::Write),
        ("Write", json!({}), ToolEffect::Write),
        ("Read", json!({}), ToolEffect::Read),
        ("read_file", json!({}), ToolEffect::Read),
        ("get_order", json!({"id": 1}), ToolEffect::Read),
        ("cancel_reservation", json!({}), ToolEffect::Write),
        ("updateOrder", json!({}), ToolEffect::Write),
        ("BashOutput", json!({}), ToolEffect::Poll),
        ("wait_for_job", json!({}), ToolEffect::Poll),
        ("search", json!({}), ToolEffect::Read),
        ("", Value::Null, ToolEffect::Read),
    ];
    for (tool, args, wanted) in cases {
        assert_eq!(guess_tool_effect(tool, &args), wanted, "{tool} {args}");
    }
}
