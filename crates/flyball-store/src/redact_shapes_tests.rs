//! The formats in which credentials appear in commands, files, headers and manifests, in every JSON encoding.

use serde_json::{Value, json};

use super::Redactor;

/// Random-looking hexadecimal digits; invented.
const HEX64: &str = "3f9a1c7e5b2d8046a1c3e5f7092b4d6f8e0a2c4b6d8f0123456789abcdef0a1b";
/// Random-looking letters and digits; invented.
const MIXED: &str = "aZ3bY8cX1dW6eV2fU9gT4hS7iR5jQ0kP";

/// Invented secrets, each with a text that contains it at `@@`.
fn shapes() -> Vec<(String, String)> {
    let mut list: Vec<(String, String)> = Vec::new();
    for (secret, text) in command_lines().iter().chain(&files()).chain(&network()).chain(&code()) {
        list.push(((*secret).to_owned(), text.replace("@@", secret)));
    }
    for (secret, text) in tokens() {
        list.push((secret.clone(), text.replace("@@", &secret)));
    }
    list
}

fn command_lines() -> Vec<(&'static str, &'static str)> {
    vec![
        ("Qx7canary9", "curl -u alice:@@ https://api.example.org/v1"),
        ("Qx7canary9", "curl -ualice:@@ https://api.example.org/v1"),
        ("Qx7canary9", "curl -sSu 'alice:@@' https://api.example.org/v1"),
        ("Qx7canary9", "curl --user alice:@@ https://api.example.org/v1"),
        ("Qx7canary9", "curl --user=\"alice:@@\" https://api.example.org/v1"),
        ("Qx7canary9", "curl -X POST https://x.example.org -d a=1 \\\n  -u \"alice:@@\""),
        ("Qx7canary9", "curl --proxy-user bob:@@ https://x.example.org"),
        ("Qx7canary9", "/usr/bin/curl -U bob:@@ https://x.example.org"),
        ("canarybiscuit", "curl -b 'sid=@@; theme=dark' https://x.example.org"),
        ("canarybiscuit", "curl --cookie sid=@@ https://x.example.org"),
        ("Qx7canary9", "curl --oauth2-bearer @@ https://x.example.org"),
        ("swordfishy", "wget --user=alice --password=@@ https://x.example.org"),
        ("swordfishy", "wget --http-password @@ https://x.example.org"),
        ("swordfishy", "mysql -u root -p@@ -h db shop"),
        ("swordfishy", "mysqldump -uroot -p'@@' shop"),
        ("swordfishy", "sshpass -p @@ ssh root@host"),
        ("swordfishy", "sshpass -p'@@' scp a root@host:"),
        ("swordfishy", "redis-cli -h cache -a @@ ping"),
        ("swordfishy", "http -a alice:@@ POST https://x.example.org"),
        ("swordfishy", "https POST x.example.org name=1 --auth alice:@@"),
        ("swordfishy", "mongosh --host db -u app -p @@"),
        ("swordfishy", "ldapsearch -x -D cn=admin -w @@ -b dc=example"),
        ("swordfishy", "docker login -u alice -p @@ registry.example.org"),
        ("swordfishy", "az login --service-principal -u app -p @@ --tenant t"),
        ("swordfishy", "smbclient //server/share -U alice%@@"),
        ("swordfishy", "sqlcmd -S server -U sa -P @@ -Q 'select 1'"),
        ("swordfishy", "zip -P @@ out.zip file"),
        ("swordfishy", "7z x -p@@ a.7z"),
        ("swordfishy", "openssl rsa -in key.pem -passin pass:@@"),
        ("swordfishy", "gpg --batch --passphrase @@ -d file"),
        ("swordfishy", "htpasswd -b .htpasswd alice @@"),
        ("swordfishy", "echo 'alice:@@' | chpasswd"),
        ("swordfishy", "echo @@ | sudo -S apt update"),
        ("swordfishy", "echo \"@@\" | docker login -u alice --password-stdin"),
        ("swordfishy", "keytool -list -storepass @@ -keystore k.jks"),
        ("swordfishy", "ssh-keygen -t ed25519 -N @@ -f key"),
        ("swordfishy", "kubectl create secret generic db --from-literal=pw=@@"),
        ("swordfishy", "lftp -u alice,@@ ftp.example.org"),
        ("swordfishy", "DB_PASS=@@ ./run.sh"),
        ("swordfishy", "export SMTP_PASS=\"@@\""),
        ("swordfishy", "env ADMIN_PWD=@@ make"),
        ("swordfishy", "set APP_PASSWD=@@"),
        ("Qx7canary9Zz81k4v", "export ENCRYPTION_KEY=@@"),
        ("Qx7canary9Zz81k4v", "SERVICE_CREDENTIALS=@@ ./run.sh"),
        ("Qx7canary9Zz81k4v", "FOO_APIKEY=@@"),
        ("swordfishy", "TF_VAR_admin_password=@@ terraform apply"),
        ("swordfishy", "terraform apply -var 'db_pass=@@'"),
        ("swordfishy", "ansible-playbook -e ansible_become_pass=@@ site.yml"),
        ("swordfishy", "java -Djavax.net.ssl.keyStorePassword=@@ -jar a.jar"),
        ("wJalrXUtnFEMIK7MDENGbPxRfiCYzzMADEUPKEYx", "aws configure set aws_secret_access_key @@"),
        ("swordfishy", "psql postgres://app:@@@db.example.org/shop"),
        ("swordfishy", "psql 'postgresql://app:@@@/shop?host=/run/pg'"),
        ("sw$rdf*shy(9)", "mongodb+srv://app:@@@cluster0.example.net/x"),
        ("swordfishy9", "app:@@@tcp(db:3306)/shop?parseTime=true"),
        ("swordfishy", "vault login @@"),
    ]
}

fn files() -> Vec<(&'static str, &'static str)> {
    vec![
        ("swordfishy", "machine api.example.org login alice password @@"),
        ("swordfishy", "machine api.example.org\n  login alice\n  password @@\n"),
        ("swordfishy", "default login alice password @@"),
        ("YWxpY2U6Q3g3Y2FuYXJ5OQ==", r#"{"auths":{"registry.example.org":{"auth":"@@"}}}"#),
        ("YWxpY2U6Q3g3Y2FuYXJ5OQ==", "\"auth\": \"@@\""),
        ("YWxpY2U6Q3g3Y2FuYXJ5OQ==", "//registry.example.org/:_auth=@@"),
        ("Zm9vYmFyY2FuYXJ5MTIzNDU2Nzg5", "//registry.example.org/:_authToken=@@"),
        ("swordfishy", "[pypi]\nusername = alice\npassword = @@\n"),
        ("swordfishy", "db:\n  username: alice\n  password: @@\n"),
        ("swordfishy", "user: alice\npass: @@"),
        ("$apr1$k9J2x1aB$Qw3eRt5yUi7oPa9sDf1gH0", "alice:@@"),
        ("$2y$10$abcdefghijklmnopqrstuuJ7Qm0Q8C1E2G3I4K5M6O7Q8S9U0W1Y2", "alice:@@"),
        ("$6$saltsalt$Qw3eRt5yUi7oPa9sDf1gH0Qw3eRt5yUi7oPa9sDf1gH0", "root:@@:19000:0:99999:7:::"),
        ("$y$j9T$abcdEFGH12345678$Qw3eRt5yUi7oPa9sDf1gH0Qw3eRt5yUi7oPa9sDf1", "alice:@@:19000::::::"),
        ("W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "alice:{SHA}@@"),
        (MIXED, "users:\n- name: admin\n  user:\n    token: @@\n"),
        ("swordfishy", "env:\n- name: DB_PASSWORD\n  value: @@\n- name: X\n"),
        ("swordfishy", "- name: \"SMTP_PASS\"\n  value: \"@@\""),
        ("swordfishy", "<add key=\"DbPassword\" value=\"@@\" />"),
        ("c3dvcmRmaXNoeQ==", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  dsn: @@\n"),
        ("c3dvcmRmaXNoeQ==", "apiVersion: v1\ndata:\n  dsn: @@\nkind: Secret\nmetadata:\n  name: db\n"),
        ("swordfishy", "kind: Secret\nstringData:\n  dsn: \"@@\"\n  b: c\n"),
        ("c3dvcmRmaXNoeQ==", r#"{"kind":"Secret","metadata":{"name":"db"},"data":{"dsn":"@@"}}"#),
        ("c3dvcmRmaXNoeQ==", r#"{"data":{"dsn":"@@"},"kind":"Secret"}"#),
        ("swordfishy", r#"[{"name":"DB_PASSWORD","value":"@@"}]"#),
        ("swordfishy", r#"{"value":"@@","name":"SMTP_PASS"}"#),
        (MIXED, r#"{"env":[{"name":"API_TOKEN","value":"@@"}]}"#),
        ("swordfishy", "variable \"db_password\" {\n  default = \"@@\"\n}"),
        ("swordfishy", r#"{"outputs":{"db_password":{"value":"@@","type":"string"}}}"#),
        (
            "kJ8sdf7sdfsd8f7sdQ==",
            "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=@@;EndpointSuffix=y",
        ),
        ("kJ8sdf7sdfsd8f7sdQ==", "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey=@@"),
        ("swordfishy", "Server=db;Database=x;User Id=sa;Password=@@;"),
        ("AAAAgQDwordfish0123456789abcdefABCDEF", PUTTY),
        ("lQOYBGNcanary0123456789abcdefghijklmnopqrstuvwxyzAB", PGP),
        ("b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGA", ESCAPED_PEM),
        (
            "mQx0canary7aB3cD5eF7gH9iJ1kL3mN5oP7qR9sT1uV=",
            "[Interface]\nPrivateKey = @@\nAddress = 10.0.0.2/32",
        ),
        ("swordfishy", "CREATE USER app IDENTIFIED BY '@@';"),
        ("swordfishy", "ALTER ROLE app WITH PASSWORD '@@';"),
    ]
}

const PUTTY: &str = "PuTTY-User-Key-File-2: ssh-rsa\nEncryption: none\nComment: x\nPublic-Lines: 1\nAAAAB3Nz\nPrivate-Lines: 1\n@@\nPrivate-MAC: 0123456789abcdef0123456789abcdef01234567\n";
const PGP: &str =
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: x\n\n@@\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----\n";
const ESCAPED_PEM: &str =
    r#""private_key": "-----BEGIN OPENSSH PRIVATE KEY-----\n@@\n-----END OPENSSH PRIVATE KEY-----\n""#;

fn network() -> Vec<(&'static str, &'static str)> {
    vec![
        ("canarybiscuit", "GET / HTTP/1.1\r\nHost: x\r\nCookie: sid=@@; theme=dark\r\nAccept: */*"),
        ("canarybiscuit", "curl -H 'Cookie: sid=@@' https://x.example.org"),
        ("canarybiscuit", "Set-Cookie: sid=@@; Path=/; HttpOnly"),
        ("canarybiscuit", r#"{"headers":{"Cookie":"sid=@@"}}"#),
        ("canarybiscuit", r#"{"headers":[["Cookie","sid=@@"]]}"#),
        ("canarybiscuit", r#"{"cookies":{"sid":"@@"}}"#),
        ("canarybiscuit", r#"{"cookies":[{"name":"sid","value":"@@"}]}"#),
        ("YWxpY2U6Q3g3Y2FuYXJ5OQ==", "Proxy-Authorization: Basic @@"),
        ("YWxpY2U6Q3g3Y2FuYXJ5OQ==", "headers = {'X': 'Basic @@'}"),
        (MIXED, "Authorization: ApiKey @@"),
        (MIXED, "Authorization: Bot @@"),
        (MIXED, "X-Vault-Token: @@"),
        ("Qx7canary9", "curl -H 'X-Api-Key: @@' https://x.example.org"),
        (
            HEX64,
            "Authorization: AWS4-HMAC-SHA256 Credential=AKxyz/2026/eu/s3, SignedHeaders=host, Signature=@@",
        ),
        (HEX64, "https://b.example.org/k?X-Amz-Expires=300&X-Amz-Signature=@@"),
        ("kJ8sdf7sdfsd8f7sd", "https://acct.blob.example.net/c?sv=2024-01-01&se=2026-01-01&sig=@@%3D"),
        ("abcdefgh12", "https://x.example.org/cb?token=@@&x=1"),
        ("abcdefgh12", "https://x.example.org/cb#access_token=@@"),
        ("abcdefgh12", "https://x.example.org/?q=1&api_key=@@"),
        ("swordfishy9", "body: user%3Dalice%26password%3D@@%26x%3D1"),
        ("swordfishy9", "redirect=https%3A%2F%2Falice%3A@@%40db.example.org%2Fx"),
        (MIXED, "git clone https://@@@git.example.org/r.git"),
    ]
}

fn code() -> Vec<(&'static str, &'static str)> {
    vec![
        ("swordfishy9", "db_pass = \"@@\""),
        ("swordfishy9", "const dbPass = '@@';"),
        (MIXED, "token = \"@@\""),
        (MIXED, "const token: string = '@@';"),
        (MIXED, r#"{"token":"@@"}"#),
        ("swordfishy9", r#"requests.get(url, auth=HTTPBasicAuth(user, password="@@"))"#),
        ("swordfishy9", "{\"a\": \"password\\u003d@@\"}"),
        ("swordfishy9", "log line {\"x\":\"password\\u003d@@\"} end"),
    ]
}

fn tokens() -> Vec<(String, String)> {
    let flyball = |role: &str| format!("{}_{role}_{HEX64}", "flyball");
    let discord = ["MTIzNDU2Nzg5MDEyMzQ1Njc4", "GaBcDe", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9"].join(".");
    let of = |text: &str, secret: String| (secret, text.to_owned());
    vec![
        of("export KEY @@", flyball("agent")),
        of("curl -H 'Authorization: Bearer @@' x", flyball("operator")),
        of("the host key @@ is here", flyball("host")),
        of("flyball_login=@@", HEX64.to_owned()),
        of("open http://127.0.0.1:4190/login?link=@@ now", HEX64.to_owned()),
        of("csrf_token=@@", HEX64.to_owned()),
        of(r#"{"ticket":"@@"}"#, HEX64.to_owned()),
        of("client.login('@@')", discord),
        of("login with @@", format!("1//0{MIXED}{MIXED}")),
        of("az secret @@ .", format!("abc8{}~{MIXED}", "Q")),
        of("databricks @@", format!("{}{}", "dapi", "0123456789abcdef0123456789abcdef")),
        of("atlassian @@", format!("{}3xFfGF0{MIXED}{MIXED}", "ATATT")),
        of("doctl @@", format!("{}_v1_{HEX64}", "doo")),
        of("replicate @@", format!("r8_{MIXED}")),
        of("perplexity @@", format!("{}-{MIXED}", "pplx")),
        of("sentry @@", format!("{}_{HEX64}", "sntryu")),
        of("slack @@", format!("xox{}-{}-{MIXED}", "e", "1234567890")),
        of("gitlab @@", format!("{}-{MIXED}", "glptt")),
    ]
}

/// Event lines with the text in every position and JSON encoding that an event can have.
fn lines(text: &str) -> Vec<String> {
    let nested = json!({"content": text, "n": 1}).to_string();
    let plain = json!({"type": "tool.finished", "call": "c", "ok": true, "output": text}).to_string();
    vec![
        json!({"type": "tool.requested", "call": "c", "tool": "bash", "args": {"command": text}}).to_string(),
        json!({"type": "human.released", "by": "ann", "why": format!("continue: {text}")}).to_string(),
        json!({"type": "tool.requested", "call": "c", "tool": "t", "args": nested}).to_string(),
        json!({"type": "tool.requested", "call": "c", "tool": "t", "args": json!({"a": nested}).to_string()})
            .to_string(),
        json!({"type": "tool.requested", "call": "c", "tool": "t", "args": {text: 1}}).to_string(),
        plain.replace('/', "\\/"),
        escape_ascii(&plain),
        escape_ascii(&json!({"type": "x", "output": escape_ascii(&nested)}).to_string()),
    ]
}

/// The same JSON with ASCII characters in strings written as `\u00XX`, unless they have a short escape.
fn escape_ascii(line: &str) -> String {
    let (mut out, mut inside, mut skip) = (String::new(), false, 0);
    for c in line.chars() {
        match c {
            '"' if skip == 0 => {
                inside = !inside;
                out.push(c);
            }
            '\\' if skip == 0 => {
                out.push(c);
                skip = 2;
            }
            c if inside && skip == 0 && c.is_ascii() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
        skip = usize::saturating_sub(skip, 1);
    }
    out
}

/// Collects all texts of a value, including keys, with nested JSON decoded.
fn texts(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
            if let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str::<Value>(text) {
                texts(&inner, out);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, out)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            out.push_str(key);
            out.push('\n');
            texts(value, out);
        }),
        _ => {}
    }
}

#[test]
fn every_shape_is_redacted_in_every_json_spelling() {
    let redactor = Redactor::new(true, &[]).unwrap();
    let shapes = shapes();
    assert!(shapes.len() >= 120, "{}", shapes.len());
    let mut left = Vec::new();
    for (secret, text) in &shapes {
        for line in lines(text) {
            let clean = redactor.redact(&line);
            let value: Value =
                serde_json::from_str(&clean).unwrap_or_else(|e| panic!("{line}\n{clean}\n{e}"));
            let mut all = clean.to_string();
            texts(&value, &mut all);
            if all.contains(secret.as_str()) || !clean.contains("[redacted:") {
                left.push(format!("{line}\n    {clean}"));
            }
            assert_eq!(redactor.redact(&clean), clean, "a second pass changed the text");
        }
        let clean = redactor.redact(text);
        if clean.contains(secret.as_str()) {
            left.push(format!("plain text: {clean}"));
        }
        assert_eq!(redactor.redact(&clean), clean, "a second pass changed the text");
    }
    let shown = left.iter().take(60).cloned().collect::<Vec<_>>().join("\n");
    assert!(left.is_empty(), "{} left:\n{shown}", left.len());
}

#[test]
fn command_arguments_in_arrays_are_redacted() {
    let redactor = Redactor::new(true, &[]).unwrap();
    for (line, secret) in [
        (r#"{"type":"x","args":["curl","-u","alice:Qx7canary9","https://x"]}"#, "Qx7canary9"),
        (r#"{"type":"x","args":{"cmd":"curl","args":["-u","alice:Qx7canary9","https://x"]}}"#, "Qx7canary9"),
        (r#"{"type":"x","args":{"argv":["/usr/bin/mysql","-pswordfishy","shop"]}}"#, "swordfishy"),
        (r#"{"type":"x","args":["sshpass","-p","swordfishy","ssh","host"]}"#, "swordfishy"),
        (r#"{"type":"x","args":["--db-pass","swordfishy"]}"#, "swordfishy"),
    ] {
        let clean = redactor.redact(line);
        assert!(!clean.contains(secret), "{clean}");
        assert!(serde_json::from_str::<Value>(&clean).is_ok(), "{clean}");
    }
}

#[test]
fn lists_of_names_are_unchanged() {
    let redactor = Redactor::new(true, &[]).unwrap();
    for line in [
        r#"{"type":"x","args":{"required":["password","username"]}}"#,
        r#"{"type":"x","args":{"pass_env":["DB_PASSWORD","OPENAI_API_KEY"]}}"#,
        r#"{"type":"x","args":{"name":"max_tokens","value":"4096"}}"#,
        r#"{"type":"x","args":{"kind":"ConfigMap","data":{"mode":"production"}}}"#,
    ] {
        assert_eq!(redactor.redact(line), line);
    }
}

#[test]
fn custom_pattern_matches_decoded_text() {
    let redactor = Redactor::new(false, &["corp=[0-9]{4}".to_owned()]).unwrap();
    let line = r#"{"type":"x","a":"corp\u003d1234","b":"{\"c\":\"corp\\u003d\\u00351234\"}"}"#;
    let clean = redactor.redact(line);
    assert_eq!(clean, r#"{"type":"x","a":"[redacted:custom]","b":"{\"c\":\"[redacted:custom]4\"}"}"#);
}

#[test]
fn one_mebibyte_of_adversarial_text_takes_bounded_time() {
    let redactor = Redactor::new(true, &[]).unwrap();
    let pieces = [
        "curl -u ",
        "mysql -p",
        "curl ",
        "http ",
        "cookie: a=",
        "kind: Secret\n",
        "name: DB_PASSWORD\n",
        "machine a login b password ",
        "%70",
        "%25",
        "\\u0070",
        "user: a\npass: ",
        "$2a$",
        "{SHA}",
        "Q~",
        "sig=",
        "PuTTY-User-Key-File-2: Private-Lines: ",
        "identified by ",
        "basic ",
        "variable \"password\" { ",
        "@tcp(",
        "MTIz",
        "echo a | sudo -S ",
        "flyball_",
        "\"{",
        "[",
        "{\"a\":",
        "login?link=",
    ];
    let begin = std::time::Instant::now();
    for piece in pieces {
        let text = |bytes: usize| piece.repeat(bytes / piece.len());
        for line in [json!({"type": "x", "v": text(1_048_576)}).to_string(), text(131_072)] {
            let clean = redactor.redact(&line);
            assert!(!line.starts_with("{\"type") || serde_json::from_str::<Value>(&clean).is_ok(), "{piece}");
        }
        // A hundred times the usual time, but a fraction of quadratic time.
        let took = begin.elapsed();
        assert!(took.as_secs() < 240, "{piece}: {took:?}");
    }
}
