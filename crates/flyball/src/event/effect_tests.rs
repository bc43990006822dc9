//! Tools and commands that are writes, reads or polls, in a table.

use super::effect_of;
use crate::policy::Effect;
use serde_json::{Value, json};

#[test]
fn guesses_what_a_call_does() {
    let shell = |command: &str| json!({ "command": command });
    let cases: Vec<(&str, Value, Effect)> = vec![
        ("bash", shell("grep -rn needle src"), Effect::Read),
        ("bash", shell("ls -la 2>&1 | head"), Effect::Read),
        ("bash", shell("cat a.py > b.py"), Effect::Write),
        ("bash", shell("cat > a.py << 'EOF'\nprint(1)\nEOF"), Effect::Write),
        ("bash", shell("python run.py > /dev/null"), Effect::Read),
        ("bash", shell("grep 'a > b' file"), Effect::Read),
        ("bash", shell("sed -n 1,5p a.py"), Effect::Read),
        ("bash", shell("sed -i 's/a/b/' a.py"), Effect::Write),
        ("bash", shell("cd /x && rm -rf build"), Effect::Write),
        ("bash", shell("git status"), Effect::Read),
        ("bash", shell("git commit -m x"), Effect::Write),
        ("bash", shell("git -C sub checkout main"), Effect::Write),
        ("bash", shell("pytest -x"), Effect::Read),
        ("bash", shell("FOO=1 pip install x"), Effect::Write),
        ("bash", json!({"_truncated": "{\"command\":\"cat <<'EOF' > /app/a.py\\nimport"}), Effect::Write),
        ("bash", json!({"cmd": "ls"}), Effect::Read),
        ("Bash", shell("echo hi"), Effect::Read),
        ("str_replace_editor", json!({"command": "view", "path": "a"}), Effect::Read),
        ("str_replace_editor", json!({"command": "create", "path": "a"}), Effect::Write),
        ("Edit", json!({"file_path": "a"}), Effect::Write),
        ("Write", json!({}), Effect::Write),
        ("Read", json!({}), Effect::Read),
        ("read_file", json!({}), Effect::Read),
        ("get_order", json!({"id": 1}), Effect::Read),
        ("cancel_reservation", json!({}), Effect::Write),
        ("updateOrder", json!({}), Effect::Write),
        ("BashOutput", json!({}), Effect::Poll),
        ("wait_for_job", json!({}), Effect::Poll),
        ("search", json!({}), Effect::Read),
        ("", Value::Null, Effect::Read),
    ];
    for (tool, args, wanted) in cases {
        assert_eq!(effect_of(tool, &args), wanted, "{tool} {args}");
    }
}
