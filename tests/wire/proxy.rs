//! Behind a proxy: nginx with TLS and a path prefix in front of the real binary, called by the real command line over
//! every binding.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::raw::{grpc_refusal, http, open, read_all};
use crate::support::{Server, free_port};

/// Starts nginx with a shell that kills it when the test or its process ends.
const WATCHED: &str = r#""$@" </dev/null & nginx=$!; cat >/dev/null; kill -9 $nginx"#;

/// How long to wait for something that should happen at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// nginx with TLS on one port and without on another, both in front of one server. Stopped when dropped.
struct Proxy {
    shell: Child,
    dir: TempDir,
    tls: u16,
    plain: u16,
}

/// The paths that the proxy passes on. gRPC has its own path and its own directive.
const LOCATIONS: &str = r"
    proxy_http_version 1.1;
    proxy_set_header Connection '';
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    grpc_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    location /v1/a2a { proxy_pass http://server; }
    location /.well-known/ { proxy_pass http://server; }
    location /lf.a2a.v1.A2AService/ { grpc_pass grpc://server; }
";

impl Proxy {
    /// Starts nginx as the current user. It writes only to its own directory.
    fn start((tls, plain): (u16, u16), server: &Server) -> Self {
        let dir = TempDir::new().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let upstream = server.url.strip_prefix("http://").unwrap().split('/').next().unwrap();
        let scratch: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {what};\n"))
            .concat();
        let config = format!(
            "daemon off; master_process off; pid nginx.pid; error_log error.log;
             events {{ worker_connections 256; }}
             http {{
                access_log off;
                {scratch}
                upstream server {{ server {upstream}; }}
                server {{
                    listen 127.0.0.1:{tls} ssl http2; ssl_certificate cert.pem; ssl_certificate_key key.pem;
                    {LOCATIONS}
                }}
                server {{ listen 127.0.0.1:{plain}; {LOCATIONS} }}
             }}"
        );
        std::fs::write(dir.path().join("nginx.conf"), config).unwrap();
        let shell = Command::new("sh")
            .args(["-c", WATCHED, "sh"])
            .arg(nginx())
            .args(["-p", dir.path().to_str().unwrap(), "-c", "nginx.conf", "-e", "error.log"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let proxy = Self { shell, dir, tls, plain };
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", plain)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "nginx does not listen: {}", proxy.errors());
            std::thread::sleep(Duration::from_millis(10));
        }
        proxy
    }

    /// Returns the URL of the server behind the proxy.
    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.tls)
    }

    /// Returns the URL of the server behind the proxy, without TLS.
    fn plain_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.plain)
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("error.log")).unwrap_or_default()
    }

    /// Returns the command line, set up to trust the proxy's certificate.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tricord"));
        command.args(args).stdin(Stdio::null()).env("SSL_CERT_FILE", self.dir.path().join("cert.pem"));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // This ends the shell's `cat`, and then the shell ends nginx.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Finds nginx. On Debian it is in a directory that is only on the administrator's path.
fn nginx() -> PathBuf {
    let known = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"].map(Path::new);
    let found = known.into_iter().find(|path| path.exists());
    found.expect("nginx is missing: run scripts/setup first").to_owned()
}

/// Starts a server with a path prefix, and the proxy whose URL its cards have.
fn behind() -> (Server, Proxy) {
    let ports = (free_port(), free_port());
    let server = Server::logged(&format!(
        "[server]\npublic_url = \"https://localhost:{}\"\nbase_path = \"/v1/a2a\"\ntrusted_proxies = [\"127.0.0.1\"]\n\
         hosts = [\"server\"]\n[log]\naccess = true\n\
         [[agents]]\nname = \"kit\"\nkind = \"conformance\"\n[[agents]]\nname = \"other\"\nkind = \"echo\"\n",
        ports.0
    ));
    let proxy = Proxy::start(ports, &server);
    (server, proxy)
}

const BINDINGS: [&str; 3] = ["grpc", "jsonrpc", "http"];

#[tokio::test]
async fn s20_everything_works_behind_a_proxy_with_tls_and_a_prefix() {
    let (server, proxy) = behind();
    for binding in BINDINGS {
        // The card is at the origin, below the prefix and below each agent, with and without a slash.
        for (path, words, answer) in [
            ("", "echo hi", "hi\n"),
            ("/v1/a2a", "echo hi", "hi\n"),
            ("/v1/a2a/", "echo hi", "hi\n"),
            ("/v1/a2a/other", "echo hi", "echo hi\n"),
            ("/v1/a2a/other/.well-known/agent.json", "echo hi", "echo hi\n"),
        ] {
            let url = proxy.url(path);
            let sent = proxy.run(&["send", "--url", &url, "--binding", binding, words]);
            assert_eq!(String::from_utf8_lossy(&sent.stdout), answer, "{binding} {path}: {sent:?} {}", proxy.errors());
        }
        let lost = proxy.run(&["get", "none", "--url", &proxy.url("/v1/a2a"), "--binding", binding]);
        let said = String::from_utf8_lossy(&lost.stderr);
        assert_eq!((lost.status.code(), said.contains("TASK_NOT_FOUND")), (Some(3), true), "{binding}: {said}");
        let large = "x".repeat(100_000);
        let sent = proxy.run(&["send", "--url", &proxy.url("/v1/a2a/other"), "--binding", binding, &large]);
        assert_eq!(sent.stdout.len(), 100_001, "{binding}: {}", String::from_utf8_lossy(&sent.stderr));
    }
    // A browser appends the gRPC-Web path to the one URL that it has, so the path is below the prefix.
    let get_none = b"\0\0\0\0\x06\x12\x04none";
    let headers = [("content-type", "application/grpc-web+proto"), ("a2a-version", "1.0")];
    let path = "/v1/a2a/lf.a2a.v1.A2AService/GetTask";
    let reply = http(&proxy.plain_url(), "POST", path, &headers, &get_none[..]).await;
    assert_eq!((reply.status, reply.header("grpc-status")), (200, "5"), "{reply:?}");
    let refused = grpc_refusal(&server.url, path, &[("a2a-version", "1.0")], &get_none[5..]).await;
    assert_eq!(refused.reason, "TASK_NOT_FOUND");
}

#[tokio::test]
async fn s19_a_proxy_passes_streams_on_piece_by_piece() {
    let (_server, proxy) = behind();
    let url = proxy.url("/v1/a2a");
    for binding in BINDINGS {
        let (waiting, opening) = (format!("gate {binding} chunks 2"), format!("open {binding}"));
        let mut stream = proxy
            .command(&["stream", "--json", "--url", &url, "--binding", binding, &waiting])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let out = BufReader::new(stream.stdout.take().unwrap());
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let next = || lines.recv_timeout(PATIENCE);
        // The task has not ended, so this output was not held back until the end of the stream.
        let first = next().unwrap_or_else(|_| panic!("{binding}: nothing came: {}", proxy.errors()));
        assert!(first.starts_with("{\"task\":"), "{binding}: {first}");
        let working = next().unwrap();
        assert!(working.contains("TASK_STATE_WORKING"), "{binding}: {working}");
        assert!(stream.try_wait().unwrap().is_none(), "{binding}: the task has not ended");
        assert!(proxy.run(&["send", "--url", &url, &opening]).status.success());
        let rest: Vec<_> = std::iter::from_fn(|| next().ok()).collect();
        assert!(rest.last().unwrap().contains("TASK_STATE_COMPLETED"), "{binding}: {rest:?}");
        assert!(stream.wait().unwrap().success(), "{binding}");
    }
}

#[tokio::test]
async fn s20_cards_have_the_configured_url_whatever_headers_a_proxy_adds() {
    let (server, proxy) = behind();
    let path = "/.well-known/agent-card.json";
    let direct = http(&server.url, "GET", path, &[], "").await;
    let forged = [
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-proto", "gopher"),
        ("x-forwarded-prefix", "/evil"),
        ("forwarded", "host=evil.example;proto=http"),
    ];
    for at in [&server.url, &proxy.plain_url()] {
        let reply = http(at, "GET", path, &forged, "").await;
        assert_eq!((reply.status, &reply.body), (200, &direct.body), "{at}");
        let known = [("if-none-match", direct.header("etag"))];
        assert_eq!(http(at, "GET", path, &known, "").await.status, 304, "{at}");
    }
    let urls = direct.json()["supportedInterfaces"].to_string();
    assert_eq!(urls.matches(&proxy.url("/v1/a2a")).count(), 2, "{urls}");
    assert!(urls.contains(&format!("\"localhost:{}\"", proxy.tls)), "{urls}");
}

#[tokio::test]
async fn logs_show_the_client_behind_a_trusted_proxy() {
    let (server, proxy) = behind();
    let headers = [("a2a-version", "1.0"), ("x-forwarded-for", "198.51.100.7, 203.0.113.9")];
    let headers: Vec<_> = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    // The proxy adds 127.0.0.1, which is trusted itself, so the address before it counts.
    for url in [&proxy.plain_url(), &server.url] {
        let reply = read_all(open(url, "GET", "/v1/a2a/tasks", &headers, "").await).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let begun = Instant::now();
    let lines = loop {
        let log = std::fs::read_to_string(server.dir().join("server.log")).unwrap();
        let lines: Vec<_> = log.lines().filter(|line| line.contains("ListTasks")).map(str::to_owned).collect();
        if lines.len() == 2 {
            break lines;
        }
        assert!(begun.elapsed() < PATIENCE, "{log}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    for line in lines {
        assert!(line.contains("203.0.113.9") && !line.contains("198.51.100.7"), "{line}");
    }
}

#[test]
fn s20_a_prefix_that_hides_an_interface_is_refused_and_named() {
    for base_path in ["/livez", "/readyz", "/.well-known/agent-card.json"] {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("t.toml"), format!("[server]\nbase_path = \"{base_path}\"\n")).unwrap();
        let ran = Command::new(env!("CARGO_BIN_EXE_tricord"))
            .args(["serve", "--config", "t.toml", "--listen", "127.0.0.1:0", "--public-url", "https://a.example"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        let told = format!(
            "the card of echo would advertise https://a.example{base_path}, which the server uses for something else"
        );
        assert_eq!((ran.status.code(), said.contains(&told)), (Some(2), true), "{said}");
        assert!(!dir.path().join("tricord.db").exists(), "a failed start left a store behind");
    }
}
