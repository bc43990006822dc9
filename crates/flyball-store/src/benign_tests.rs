//! Texts without secrets, many of which look like one: code, logs, diffs, prose, hashes.

/// One text per line. The long ones follow below.
const LINES: &str = r##"
"tokens_in": 512, "tokens_out": 88
max_tokens=4096
{"max_tokens": 4096, "token_count": 123456}
num_tokens: 1048576
tokenizer = AutoTokenizer.from_pretrained("gpt2-medium-v2")
token = tokens[i]
for token in tokens:
The token limit of 200000 tokens was reached
next_page_token=CAUQAA2
csrf token missing or incorrect
the secretary wrote password reset instructions
Secretary: minutes of 2024-05-06 approved
secretariat: room 4b12
password: the user must choose one
Password: must have at least 8 characters
password: required
password: string
password?: string;
password: String,
password = None
password=None
password=password
password=self.password
password = getpass.getpass()
password=os.environ["DB_PASSWORD"]
password=os.environ.get('DB_PASSWORD')
password = process.env.DB_PASSWORD
password=$DB_PASSWORD
password=${DB_PASSWORD}
password: ${{ secrets.DB_PASSWORD }}
DB_PASSWORD=$(cat password.txt)
DB_PASSWORD="$PASSWORD"
password: "<your password>"
password: '{{ vault_password }}'
password=********
password: xxxxxxxxxxxx
"password": "********"
{"password": null, "secret": true}
{"password": {"type": "string", "minLength": 8}}
"required": ["user", "password"]
<input type="password" name="password" id="password1">
<label for="password">Password</label>
<password></password>
if password == expected_password:
if (password !== confirmPassword) {
password.length >= 12
assert password != "hunter22x"
def set_password(self, raw_password):
user.set_password(password1)
password_hash = bcrypt.hash(password)
password_reset_timeout_days = 3
PASSWORD_HASHERS = ['django.contrib.auth.hashers.PBKDF2PasswordHasher']
password_min_length: 12
PASSWORD_FILE=/run/secrets/db_password
POSTGRES_PASSWORD_FILE: /run/secrets/pg1
private_key: /etc/ssl/private/server1.pem
private_key_path = "~/.ssh/id_ed25519"
"private_key": "./keys/dev1.pem"
PWD=/srv/app/build-2024
OLDPWD=/tmp/a1b2c3
pwd: /var/lib/x86_64
pwd=$(pwd)
cd "$(dirname "$0")" && pwd
secret: my-secret
secretName: db-credentials-v2
secret=db-credentials-v2
kubectl create secret generic db-credentials --from-file=./username.txt
secrets: inherit
client_secret: your-client-secret
api_key: YOUR_API_KEY
api_key = "your-api-key-here"
api_key=api_key
apiKey: config.apiKey
apiKey: process.env.API_KEY2
api_key=settings.OPENAI_API_KEY
api_key: changeme
"api_key": "string"
access_token: str
access_token=access_token
auth_token = request.headers.get("X-Auth-Token")
self.auth_token = auth_token
refresh_token_expires_in: 3600
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
Authorization: Bearer ${TOKEN}
"Authorization": f"Bearer {token}"
'Authorization': 'Bearer ' + token
Authorization: Bearer YOUR_API_KEY
Authorization: Bearer your-token-here
Authorization: Basic authentication is required
authorization: optional
The bearer of this letter may enter
bearer authentication with OAuth2
commit 9fceb02d0ae598e95dc970b74767f19372d61af8
index 83db48f..bf12a90 100644
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
integrity sha512-oKO7R0Xv1j0Zb0pQmGf3xw8jvZ2q5L1n9s8d7f6g5h4j3k2l1==
etag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
id 550e8400-e29b-41d4-a716-446655440000
urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6
docker pull alpine:3.18@sha256:c5b1261d6d3e43071626931fc004f70149baeba2c8ec672bd4f27761f8e1ad6b
docker://alpine:3.18@sha256:c5b1261d6d3e43071626931fc004f70149baeba2c8ec672bd4f27761f8e1ad6b
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
https://example.org:8443/path?x=1#frag
http://localhost:3000/@user/post
https://user@example.org/repo.git
ssh://git@github.com:22/org/repo.git
git@github.com:org/repo.git
git+https://github.com/org/repo.git@v1.2.3
postgres://user:password@localhost:5432/db
postgres://$USER:$PASS@localhost/db
mysql://{user}:{password}@{host}/{db}
redis://:<password>@cache:6379
mailto:someone@example.org
jdbc:postgresql://db.example.org:5432/app
sk-learn and scikit-learn are the same package
class="sk-estimator-doc-link fitted sk-toggleable__label-arrow"
#sk-container-id-1 div.sk-toggleable__content
task-2024-01-01-cleanup-of-old-files-in-the-tree
risk-assessment-framework-version-12-final
disk-usage-analyzer-for-linux-systems-x64
hf_hub_download(repo_id="org/model", filename="config.json")
npm_config_registry=https://registry.npmjs.org/
npm_lifecycle_event=test
pypi-publish@release/v1
xoxo, see you tomorrow
msg.text.startswith("SG.")
Asia and Africa; ASIA-PACIFIC REGION 2024
AKIA is the prefix of an access key id
AIza is the prefix of a Google key
ghp_ is the prefix of a token
eyJ is how a JSON Web Token begins
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
grep -r "BEGIN RSA PRIVATE KEY" .
echo "-----BEGIN RSA PRIVATE KEY-----"
12:34:56:AA:BB:CC
2024-05-06T07:08:09.123456Z INFO request id=7f3a9c
[ERROR] 10.0.0.1:5432 password authentication failed for user "app"
FATAL: password authentication failed for user "postgres"
Access denied for user 'root'@'localhost' (using password: YES)
sudo: a password is required
Permission denied (publickey,password).
Enter passphrase for key:
passphrase: (empty)
Passwort: bitte mindestens acht Zeichen
Das Passwort wurde geändert; der Benutzer muss sich neu anmelden.
Le mot de passe doit contenir au moins huit caractères.
La contraseña es obligatoria: introduzca una nueva.
Пароль: введите новый пароль
password: введите
パスワード: 8文字以上
密码: 请输入密码
"password": "Mot de passe"
'password' => 'Passwort'
password: "Contraseña"
"password": "auth.password.label"
"password": "User password for the account"
password: 'required|min:8|confirmed'
errors.password = "must be at least 8 characters"
const { password, secret } = req.body;
(password) => validate(password)
password => password.trim()
let secret = rng.gen::<[u8; 32]>();
let secret: [u8; 32] = key.into();
let api_key = std::env::var("API_KEY")?;
secret := os.Getenv("APP_SECRET1")
secret = vault.read("secret/data/app1")["password"]
String password = request.getParameter("password");
SELECT password FROM users WHERE id = 12345
UPDATE users SET password = :password1 WHERE id = ?
INSERT INTO users (name, password) VALUES (?, ?)
ALTER USER app WITH PASSWORD %s
password = %s AND active = 1
password=%(password)s
password = "%s" % pw
password = "#{ENV['PW1']}"
secret: !Ref AppSecret
secret: !secret wifi_password
password: op://vault/item1/password
password: vault:secret/data/app1#password
secret: arn:aws:secretsmanager:eu-west-1:123456789012:secret:app
flag --token-file ./token1.txt
--password-stdin
docker login -u user --password-stdin < token.txt
--api-key-file key1.json
--password
--secret id=npm,src=.npmrc
GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}
GITHUB_TOKEN=
HF_TOKEN=hf_xxx
MAX_TOKEN=4096
EOS_TOKEN = "<|endoftext|>"
PAD_TOKEN="[PAD]"
CLS_TOKEN=special_token_number_1
token: 'NEWLINE'
TokenType.IDENTIFIER, Token(type=NAME, string='password')
- password: str
+ password: SecretStr
-    api_key=None,
+    api_key=api_key or default_key,
private_key_size: 4096-bit
key = "value12345"
primary_key=True, foreign_key="users.id"
cache_key: linux-x64-9f3a2b1c
KEY=value12
The quick brown fox; the secret of good code is: write less of it.
One secret: small steps. Another secret: tests.
what's the password? It's printed on the box.
type: "secret" | "password" | "token"
enum Kind { Password, Secret, ApiKey, AccessToken }
"""Return the password: a str of 12 characters."""
:param password: the password of the user
@param {string} password - the password
* password: (optional) see RFC7617
| password | string | yes | the password |
1. password: hashed with bcrypt (cost 12)
let token = next_token();
let key = map.keys().next();
const token = await getToken(user.id);
password_field.clear()
assert_eq!(token.kind, TokenKind::Ident);
token: Token::new(TokenKind::Plus, 12)
token_type: "Bearer", expires_in: 3600
cache_key = f"user:{user_id}:profile"
CACHE_KEY=linux-x64-9f3a2b1c44d0e812
PRIMARY_KEY=users_pkey_2024_01_01
page_token: "CAUQAA2bCDEF0123456789"
pass: 12, fail: 0, skip: 3
test result: ok. 214 passed; 0 failed
pass/fail criteria: see docs
all tests pass: yes
PASS: src/token_test.go (0.23s)
bypass: the cache is off
compass=north
curl -fsSL https://example.org/install.sh -o install.sh
curl -u $USER:$PASS https://example.org
curl -u user:password https://example.org
curl -u "${USER}:${TOKEN}" https://example.org
curl -b cookies.txt -c cookies.txt https://example.org
mysql -p shop < dump.sql
mysql -u root -p -h db shop
docker run -p 8080:80 nginx
docker login -u user registry.example.org
sshpass -e ssh host
ssh -p 2222 host
mkdir -p src/auth/token
cp -p a b && curl -p x
zip -r out.zip src
redis-cli ping
openssl rsa -in key.pem -passin env:KEY_PASS
htpasswd -c .htpasswd alice
Cookie: must be set by the server
Set-Cookie: header missing
cookies = session.cookies.get_dict()
The cookie banner = annoying
Basic authentication with a user name
basic understanding of base64
auth: true
auth = authenticate(request)
"auth": "required"
author: Ann Example
kind: ConfigMap
data:
  mode: production-2024
kind: SecretStore
secretRef: db-credentials
- name: DB_HOST\n  value: db.example.org
- name: LOG_LEVEL
  value: debug2024
{"name":"max_tokens","value":"4096"}
{"name":"token","type":"string"}
ticket: ABC-1234
signature: fn(a: u8) -> u8
the machine login page and the password reset page
default login prompt, password unchanged
100%20 discount %3E 50%25
https://example.org/a%20b?q=c%2Bd&page=2
printf("%2d %3d", a, b)
echo done | tee log.txt
echo "$PASSWORD" | docker login -u user --password-stdin
s/\$1\$2/x/
awk '{print $1$2}'
{SHA} is a prefix
MTIzNDU2 is base64
Q~ and A
flyball_hook_ran_total 12
flyball_login is the name of the cookie
export interface TokenResponse { access_token: string; token: string }
def get_secret(name: str) -> str:
secret_name = "prod/db/credentials"
credentials: include
credentials = boto3.Session().get_credentials()
git commit -m "Rename token to key"
9fceb02d0ae598e95dc970b74767f19372d61af8 refs/heads/main
key: 9fceb02d0ae598e95dc970b74767f19372d61af8
http server listens on -a address
the http method and https scheme
ALTER TABLE users ADD COLUMN password VARCHAR(255)
grant all on shop.* to 'app'@'%' identified by $1
user: the user, pass: the pass
username: string, password: string
"user": "ann", "passed": true
x-request-id: 550e8400-e29b-41d4-a716-446655440000
X-RateLimit-Key: user
{"required":["password","username"]}
{"pass_env":["DB_PASSWORD","OPENAI_API_KEY"]}
["password","password2"]
"##;

/// All texts.
pub(super) fn texts() -> Vec<&'static str> {
    let mut texts: Vec<&str> = LINES.lines().filter(|line| !line.is_empty()).collect();
    // All lines joined into one text, so that line breaks appear as escapes.
    texts.push(LINES);
    texts
}
