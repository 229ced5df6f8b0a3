//! What a configuration means, and the message for each mistake in one.

use std::any::Any;
use std::time::Duration;

use super::{AgentConfig, Config, LogFormat, OnRestart, Sources, StoreUrl};
use crate::agents::Kind;
use crate::agents::exec::ExecSettings;

fn load(text: &str) -> Result<Config, String> {
    Sources::default().text("t.toml", text).load().map_err(|problems| problems.to_string())
}

/// Returns the settings of an `exec` agent.
fn exec(agent: &AgentConfig) -> &ExecSettings {
    (agent.kind.settings().unwrap() as &dyn Any).downcast_ref().unwrap()
}

/// Returns the only problem of the text.
fn problem(text: &str) -> String {
    load(text).expect_err(text)
}

#[test]
fn no_file_is_one_echo_agent() {
    let config = Config::defaults();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.store.url, StoreUrl::sqlite("tricord.db"));
    assert_eq!(config.store.keep_finished, Some(Duration::from_secs(30 * 86_400)));
    assert_eq!(config.admin.listen, None);
    assert_eq!(config.default_agent, "echo");
    assert_eq!(config.agents.iter().map(|agent| agent.kind.name()).collect::<Vec<_>>(), ["echo"]);
    assert_eq!(config.agents[0].card.skills[0].id, "echo");
    assert_eq!(config.public_url(([0, 0, 0, 0], 81).into()), "http://127.0.0.1:81");
}

#[test]
fn a_file_with_everything_is_read() {
    let text = r#"
        [server]
        listen = "[::]:9000"
        public_url = "https://agents.example.com/"
        base_path = "/v1/a2a/"
        default_agent = "kit"
        cors_origins = ["https://app.example"]
        cors_credentials = true
        card_max_age = "1h"
        hosts = ["agents.internal", "fd00::1"]
        trusted_proxies = ["10.0.0.0/8", "::1"]
        card_keys = [{key = "env:SUPPORT_KEY", kid = "k"}, {key = "env:SUPPORT_KEY"}]
        ping_interval = "0"
        keep_alive = "90s"
        grace = "5s"
        [admin]
        listen = "127.0.0.1:9464"
        [limits]
        body = "1MiB"
        running_tasks = 5
        [store]
        url = "memory:"
        keep_finished = "forever"
        [protocol]
        assume_version = "1.0"
        [log]
        format = "json"
        level = "info,tricord::engine=debug"
        [[agents]]
        name = "support"
        kind = "exec"
        command = ["python3", "support.py"]
        concurrency = 8
        max_output = "64MiB"
        on_restart = "resume"
        cancel_grace = "250ms"
        dedupe_message_id = true
        [agents.environment]
        KEY = "env:SUPPORT_KEY"
        MODE = "fast"
        [agents.card]
        description = "Answers support questions"
        version = "1.2.0"
        input_modes = ["text/plain"]
        [agents.card.provider]
        organization = "Example"
        url = "https://example.com"
        [[agents.card.extensions]]
        uri = "https://example.com/ext"
        required = true
        [[agents.card.skills]]
        id = "answer"
        name = "Answer"
        description = "Answers a question about the product"
        tags = ["support"]
        [[agents]]
        name = "kit"
        kind = "conformance"
    "#;
    let environment = [("SUPPORT_KEY".to_owned(), "s3".to_owned())];
    let config = Sources::default().text("t.toml", text).environment(environment).load().unwrap();
    assert_eq!(config.public_url(config.server.listen), "https://agents.example.com");
    assert_eq!(config.server.base_path, "/v1/a2a");
    assert_eq!(config.default_agent, "kit");
    assert_eq!((config.server.ping_interval, config.server.keep_alive), (None, Duration::from_secs(90)));
    assert_eq!(config.server.grace, Duration::from_secs(5));
    assert_eq!((config.server.cors_credentials, config.server.card_max_age), (true, Duration::from_secs(3600)));
    assert_eq!(config.server.hosts, ["agents.internal", "[fd00::1]"]);
    assert!(config.server.trusted_proxies[0].contains([10, 1, 2, 3].into()));
    let keys: Vec<_> = config.server.card_keys.iter().map(|key| (key.key.reveal(), key.kid.as_deref())).collect();
    assert_eq!(keys, [("s3", Some("k")), ("s3", None)]);
    assert_eq!((config.limits.body, config.limits.engine.running), (1 << 20, 5));
    assert_eq!((&config.store.url, config.store.keep_finished), (&StoreUrl::memory(), None));
    assert_eq!(config.protocol.assume_version.as_deref(), Some("1.0"));
    assert_eq!(config.log.format, LogFormat::Json);
    let agent = &config.agents[0];
    assert_eq!((agent.on_restart, agent.cancel_grace), (OnRestart::Resume, Duration::from_millis(250)));
    assert!(agent.dedupe_message_id && agent.card.extensions[0].required);
    let exec = exec(agent);
    assert_eq!(exec.command, ["python3", "support.py"]);
    assert_eq!((exec.concurrency, exec.max_line, exec.max_output), (8, 1 << 20, 64 << 20));
    assert_eq!((exec.environment["KEY"].reveal(), exec.environment["MODE"].reveal()), ("s3", "fast"));
    assert!(!format!("{config:?}").contains("s3\""));
}

#[test]
fn the_environment_wins_over_the_file_and_a_flag_over_both() {
    let variables = [
        ("TRICORD_SERVER__LISTEN", "127.0.0.1:2"),
        ("TRICORD_STORE__URL", "memory:"),
        ("TRICORD_LIMITS__STREAMS", "7"),
        ("TRICORD_SERVER__CORS_ORIGINS", "[\"*\"]"),
        ("TRICORD_URL", "for another command"),
    ];
    let config = Sources::default()
        .text("t.toml", "[server]\nlisten = '127.0.0.1:1'\ngrace = '1s'")
        .environment(variables.map(|(name, value)| (name.to_owned(), value.to_owned())))
        .flag("--listen", &["server", "listen"], "127.0.0.1:3")
        .agent("--exec", "exec", Some(vec!["cat".into()]))
        .load()
        .unwrap();
    assert_eq!(config.server.listen.port(), 3);
    assert_eq!(config.store.url, StoreUrl::memory());
    assert_eq!(config.limits.engine.streams, 7);
    assert_eq!(config.server.cors_origins, ["*"]);
    assert_eq!(config.server.grace, Duration::from_secs(1));
    assert_eq!(config.default_agent, "exec");
}

#[test]
fn each_mistake_names_file_line_and_key() {
    let cases = [
        ("[server]\nlistn = ''", "t.toml:2: server.listn: unknown key; did you mean \"server.listen\"?"),
        ("\n[servr]", "t.toml:2: servr: unknown key; did you mean \"server\"?"),
        ("[admin]\nxyzzy = 1", "t.toml:2: admin.xyzzy: unknown key; known keys: listen"),
        ("[server]\nlisten = 8080", "t.toml:2: server.listen: takes a string, not a whole number"),
        (
            "[server]\nlisten = ':8080'",
            "t.toml:2: server.listen: \":8080\" is not an address with a port: write \"127.0.0.1:8080\", \"0.0.0.0:8080\" or \
             \"[::]:8080\"",
        ),
        ("[server]\npublic_url = ''", "t.toml:2: server.public_url: must not be empty"),
        (
            "[server]\nbase_path = 'v1'",
            "t.toml:2: server.base_path: \"v1\" is not a path: write it like \"/v1/a2a\", with letters, digits and - . _ ~ only",
        ),
        (
            "[server.tls]\ncert = '/dev/null'",
            "t.toml:1: server.tls.key: is missing: TLS needs cert and key, two PEM files",
        ),
        (
            "[server]\ncors_origins = ['https://a/b']",
            "t.toml:2: server.cors_origins: \"https://a/b\" has a path: an origin is only scheme, host and port",
        ),
        (
            "[server]\ncors_origins = ['*']\ncors_credentials = true",
            "t.toml:3: server.cors_credentials: cannot be true while cors_origins is \"*\": list the origins",
        ),
        (
            "[server]\nhosts = ['https://a.example']",
            "t.toml:2: server.hosts: \"https://a.example\" is not a host name: write it without scheme, port and path, such \
             as \"agents.internal\"",
        ),
        (
            "[server]\ntrusted_proxies = ['10.0.0.0/33']",
            "t.toml:2: server.trusted_proxies: \"10.0.0.0/33\" is not a network: write \"10.0.0.0/8\", \"192.0.2.1\" or \
             \"fd00::/8\"",
        ),
        (
            "[[server.card_keys]]\nkey = 'MC4CAQ'",
            "t.toml:2: server.card_keys[0].key: takes \"file:PATH\" or \"env:NAME\" of a private key in PEM, \
             not the key itself",
        ),
        (
            "[server]\ngrace = '5 weeks'",
            "t.toml:2: server.grace: \"5 weeks\" is not a duration: write a whole number and ms, s, m, h or d, such as \"30s\"",
        ),
        ("[server]\ndefault_agent = 'x'", "t.toml:2: server.default_agent: no agent is named \"x\": use one of echo"),
        (
            "[admin]\nlisten = '0.0.0.0:1'",
            "t.toml:2: admin.listen: 0.0.0.0:1 is not a loopback address: use 127.0.0.1 or [::1], because the admin port has no \
             authentication",
        ),
        (
            "[limits]\nbody = '64mib'",
            "t.toml:2: limits.body: \"64mib\" is not a size: write a whole number and B, KiB, MiB or GiB, such as \"64MiB\"",
        ),
        ("[limits]\nstreams = 0", "t.toml:2: limits.streams: takes a whole number from 1 to 4294967295, not 0"),
        (
            "[limits]\nmemory_requests = '1MiB'\nbody = '1MiB'",
            "t.toml:2: limits.memory_requests: leaves requests less than three times limits.body: such a body could never be \
             received",
        ),
        (
            "[store]\nurl = 'postgres://ann:s3@h/d'",
            "t.toml:2: store.url: unsupported store URL \"postgres\": use \"sqlite:PATH\" or \"memory:\"",
        ),
        (
            "[store]\nurl = 'tricord.db'",
            "t.toml:2: store.url: unsupported store URL \"tricord.db\": use \"sqlite:PATH\" or \"memory:\"",
        ),
        (
            "[store]\nkeep_finished = '1m'",
            "t.toml:2: store.keep_finished: is less than an hour, which clients rely on: use \"1h\" or more, or \"forever\"",
        ),
        (
            "[protocol]\nassume_version = '0.3'",
            "t.toml:2: protocol.assume_version: unsupported version \"0.3\": use \"1.0\"",
        ),
        ("[log]\nformat = 'xml'", "t.toml:2: log.format: takes one of \"text\", \"json\", not \"xml\""),
        (
            "[log]\nlevel = 'loud'",
            "t.toml:2: log.level: \"loud\" is not a log level: use off, error, warn, info, debug or trace",
        ),
        ("[log]\naccess = 'yes'", "t.toml:2: log.access: takes true or false, not a string"),
        ("agents = []", "t.toml:1: agents: is empty: configure at least one agent, or remove the key"),
        ("agents = 'echo'", "t.toml:1: agents: takes a list of tables ([[agents]]), not a string"),
        ("[[agents]]\nname = 'a'", "t.toml:1: agents[0].kind: is missing: use one of echo, exec, conformance"),
        (
            "[[agents]]\nkind = 'openai'\nmodel = 'm'",
            "t.toml:2: agents[0].kind: unknown kind of agent \"openai\": use one of echo, exec, conformance",
        ),
        (
            "[[agents]]\nkind = 'ecoh'",
            "t.toml:2: agents[0].kind: unknown kind of agent \"ecoh\": use one of echo, exec, conformance",
        ),
        (
            "[[agents]]\nkind = 'echo'\nname = 'a b'",
            "t.toml:3: agents[0].name: \"a b\" is not a name for an agent: use 1 to 64 letters, digits, _ . or -",
        ),
        (
            "[[agents]]\nkind = 'echo'\nname = 'tasks'",
            "t.toml:3: agents[0].name: \"tasks\" is a path of the server itself: choose another name",
        ),
        (
            "[[agents]]\nkind = 'echo'\n[[agents]]\nkind = 'echo'",
            "t.toml:3: agents[1].name: another agent is already named \"echo\": choose another name",
        ),
        (
            "[[agents]]\nkind = 'exec'",
            "t.toml:1: agents[0].command: is missing: name a program, such as [\"python3\", \"agent.py\"]",
        ),
        (
            "[[agents]]\nkind = 'exec'\ncommand = 'cat -n'",
            "t.toml:3: agents[0].command: takes a list, not a string: write [\"program\", \"argument\"] for \"cat -n\"",
        ),
        (
            "[[agents]]\nkind = 'exec'\ncommand = ['cat']\nenvironment = { A = 'env:NOPE' }",
            "t.toml:4: agents[0].environment.A: the environment variable NOPE is not set",
        ),
        (
            "[[agents]]\nkind = 'echo'\n[agents.card]\ninput_modes = []",
            "t.toml:4: agents[0].card.input_modes: is empty: list at least one media type",
        ),
        (
            "[[agents]]\nkind = 'echo'\n[agents.card]\noutput_modes = ['text']",
            "t.toml:4: agents[0].card.output_modes: \"text\" is not a media type: write it like \"text/plain\"",
        ),
        (
            "[[agents]]\nkind = 'echo'\n[agents.card]\nskills = []",
            "t.toml:4: agents[0].card.skills: is empty: list at least one skill, or remove the key for a default one",
        ),
        (
            "[[agents]]\nkind = 'echo'\n[[agents.card.skills]]\nname = 'A'",
            "t.toml:3: agents[0].card.skills[0].id: is missing",
        ),
        (
            "[[agents]]\nkind = 'echo'\n[agents.card.provider]\nurl = 'https://a'",
            "t.toml:3: agents[0].card.provider.organization: is missing",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(problem(text), expected, "of\n{text}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once_in_the_order_of_the_file() {
    let text = "[server]\nlisten = 1\n[store]\nurll = ''\n[[agents]]\nkind = 'echo'\nnmae = 'x'\n";
    let lines = problem(text);
    let starts: Vec<_> = lines.lines().map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(starts, ["t.toml:2 server.listen", "t.toml:4 store.urll", "t.toml:7 agents[0].nmae"]);
}

#[test]
fn broken_toml_names_its_line() {
    let text = problem("[server]\nlisten = \n");
    assert!(text.starts_with("t.toml:2: invalid TOML: "), "{text}");
}

#[test]
fn problems_from_outside_the_file_name_the_variable_or_flag() {
    let variable = [("TRICORD_SERVER__LISTN".to_owned(), "x".to_owned())];
    let problems = Sources::default().environment(variable).load().unwrap_err().to_string();
    assert_eq!(problems, "TRICORD_SERVER__LISTN: server.listn: unknown key; did you mean \"server.listen\"?");
    let problems = Sources::default().flag("--store", &["store", "url"], "here").load().unwrap_err().to_string();
    assert!(problems.starts_with("--store: store.url: unsupported store URL \"here\""), "{problems}");
    let problems = Sources::default()
        .text("t.toml", "[[agents]]\nkind = 'echo'")
        .agent("--exec", "exec", Some(vec!["cat".into()]))
        .load()
        .unwrap_err()
        .to_string();
    assert_eq!(problems, "--exec: agents: agents are also configured at t.toml:1: use the file or the flag, not both");
}

const EXAMPLE: &str = include_str!("../../examples/tricord.toml");

#[test]
fn the_example_shows_the_defaults() {
    let example = load(EXAMPLE).unwrap();
    let defaults = Config::defaults();
    let shown = |config: &Config| format!("{:?} {:?} {:?}", config.limits, config.store, config.log);
    assert_eq!(shown(&example), shown(&defaults));
    let (server, default) = (&example.server, &defaults.server);
    assert_eq!((server.listen, server.grace), (default.listen, default.grace));
    let web =
        |server: &super::ServerConfig| (server.card_max_age, server.cors_credentials, server.trusted_proxies.clone());
    assert_eq!(web(server), web(default));
    assert_eq!((&server.base_path, server.ping_interval), (&default.base_path, default.ping_interval));
    let bare = load("[[agents]]\nkind = 'exec'\ncommand = ['cat']").unwrap();
    let (agent, default) = (&example.agents[0], &bare.agents[0]);
    assert_eq!((agent.on_restart, agent.cancel_grace), (default.on_restart, default.cancel_grace));
    assert_eq!(agent.dedupe_message_id, default.dedupe_message_id);
    let limits = |agent: &AgentConfig| {
        let exec = exec(agent);
        (exec.concurrency, exec.max_line, exec.max_output)
    };
    assert_eq!(limits(agent), limits(default));
}

#[test]
fn the_example_shows_every_key() {
    let exec = "[[agents]]\nkind = 'exec'\ncommand = ['cat']\n";
    for (section, before) in [
        ("", ""),
        ("[server]", ""),
        ("[server.tls]", ""),
        ("[admin]", ""),
        ("[limits]", ""),
        ("[store]", ""),
        ("[protocol]", ""),
        ("[log]", ""),
        ("", exec),
        ("[agents.card]", exec),
        ("[agents.card.provider]", exec),
        ("[[agents.card.extensions]]", exec),
        ("[[agents.card.skills]]", exec),
    ] {
        let told = problem(&format!("{before}{section}\nzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz = 1"));
        let keys = told.lines().find_map(|line| line.split_once("known keys: ")).unwrap_or_else(|| panic!("{told}")).1;
        for key in keys.split(", ") {
            let shown = EXAMPLE.lines().any(|line| {
                let line = line.trim_start_matches("# ");
                line.starts_with(&format!("{key} = ")) || line.contains(&format!("{key}]"))
            });
            assert!(shown, "{key} of {section} is not in the example");
        }
    }
}

#[test]
fn every_first_segment_of_a_route_is_reserved() {
    for name in ["message", "tasks", "extendedAgentCard", ".well-known", "livez", "readyz", "openapi.json", "..", "."] {
        let text = problem(&format!("[[agents]]\nkind = 'echo'\nname = '{name}'"));
        assert!(text.contains("is a path of the server itself"), "{text}");
    }
    assert!(load("[[agents]]\nkind = 'echo'\nname = 'metrics'").is_ok());
}

#[test]
fn the_example_and_the_readme_name_every_kind_and_no_other() {
    let readme = include_str!("../../README.md");
    for text in [EXAMPLE, readme] {
        let line = text.lines().find(|line| line.starts_with("kind = ")).unwrap();
        let comment = line.split_once('#').unwrap().1.split(':').next().unwrap();
        let mut named: Vec<_> = comment.split([' ', ',', '|']).filter(|word| !matches!(*word, "" | "or")).collect();
        let mut kinds: Vec<_> = Kind::names().split(", ").map(str::to_owned).collect();
        named.sort_unstable();
        kinds.sort_unstable();
        assert_eq!(named, kinds, "{line}");
    }
}
