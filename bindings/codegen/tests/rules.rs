//! Generates code from small schemas: HTTP rules that can be expressed, and error messages for those that cannot.

use std::path::Path;

use tricord_codegen::{Config, Document, generate};

/// Generates code from a schema with these messages and rpcs, and returns that of the HTTP+JSON binding.
fn generated(messages: &str, rpcs: &str) -> Result<String, String> {
    generated_with(messages, rpcs, &[])
}

/// Generates code like [`generated`], with aliases of fields.
fn generated_with(messages: &str, rpcs: &str, aliases: &[(&str, &str)]) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let (proto, out) = (folder.path().join("proto"), folder.path().join("out"));
    std::fs::create_dir_all(proto.join("google/api")).unwrap();
    std::fs::create_dir(&out).unwrap();
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/google/api");
    for file in ["annotations.proto", "http.proto", "field_behavior.proto"] {
        std::fs::copy(published.join(file), proto.join("google/api").join(file)).unwrap();
    }
    let schema = format!(
        "syntax = \"proto3\";\n\
         package small.v1;\n\
         import \"google/api/annotations.proto\";\n\
         import \"google/protobuf/struct.proto\";\n\
         message Answer {{ string text = 1; }}\n\
         message Get {{ string tenant = 1; string id = 2; string part_id = 3; int32 size = 4; repeated string tags = 5; }}\n\
         {messages}\n\
         service Small {{ {rpcs} }}\n"
    );
    std::fs::write(proto.join("small.proto"), schema).unwrap();
    let config = Config {
        include: proto,
        files: vec!["small.proto".into()],
        service: "small.v1.Small".into(),
        scope_field: "tenant".into(),
        root: "crate::small".into(),
        bytes: Vec::new(),
        required_oneofs: Vec::new(),
        aliases: aliases.iter().map(|(field, alias)| ((*field).to_owned(), (*alias).to_owned())).collect(),
        capabilities: Vec::new(),
        anonymous: Vec::new(),
        document: Document {
            title: "Small".into(),
            version: "1".into(),
            media_type: "application/small+json".into(),
            version_header: "Small-Version".into(),
            errors: Vec::new(),
        },
        out_dir: out.clone(),
    };
    generate(&config).map_err(|error| error.to_string())?;
    Ok(std::fs::read_to_string(out.join("http_json.rs")).unwrap())
}

/// Generates code for one rpc with these options.
fn rpc(name: &str, request: &str, http: &str) -> String {
    format!("rpc {name}({request}) returns (Answer) {{ option (google.api.http) = {{ {http} }}; }}\n")
}

fn get(http: &str) -> Result<String, String> {
    generated("", &rpc("Get", "Get", http))
}

/// Returns the patterns of the `match` in order, without those for unsupported verbs.
fn patterns(code: &str) -> Vec<String> {
    let arms = code.lines().map(str::trim).filter(|line| line.starts_with("(\"") && line.ends_with("=> {"));
    arms.map(|line| line.trim_end_matches(" => {").to_owned()).collect()
}

#[test]
fn literals_are_tried_before_variables_whatever_the_order_in_the_schema() {
    let rpcs = rpc("Any", "Get", "get: \"/{tenant}/{id}\"")
        + &rpc("Under", "Get", "get: \"/{tenant}/parts\"")
        + &rpc("One", "Get", "get: \"/parts/{id=*}\"")
        + &rpc("All", "Get", "get: \"/parts\"")
        + &rpc("Both", "Get", "get: \"/parts/all\"");
    let code = generated("", &rpcs).unwrap();
    assert_eq!(
        patterns(&code),
        [
            r#"("GET" | "HEAD", ["parts"], "")"#,
            r#"("GET" | "HEAD", ["parts", "all"], "")"#,
            r#"("GET" | "HEAD", ["parts", _], "")"#,
            r#"("GET" | "HEAD", [_, "parts"], "")"#,
            r#"("GET" | "HEAD", [_, _], "")"#,
        ]
    );
}

#[test]
fn additional_bindings_and_actions_are_rules_of_their_own() {
    let code = get("post: \"/parts/{id}:run\" body: \"*\" \
         additional_bindings { post: \"/{tenant}/parts/{id}:run\" body: \"*\" } \
         additional_bindings { get: \"/parts/{id}:run\" }")
    .unwrap();
    assert_eq!(
        patterns(&code),
        [
            r#"("POST", ["parts", _], "run")"#,
            r#"("GET" | "HEAD", ["parts", _], "run")"#,
            r#"("POST", [_, "parts", _], "run")"#,
        ]
    );
    assert!(code.contains("pub const ACTIONS: &[&str] = &[\"run\"];"), "{code}");
    assert!(code.contains("pub const WORDS: &[&str] = &[\"parts\"];"), "{code}");
    assert!(code.contains("(_, [\"parts\", _], \"run\") => Route::OtherVerbs(\"GET, HEAD, POST\")"), "{code}");
    // Variables have their places in the path.
    assert!(code.contains("path.into_variables([(\"tenant\", 0usize), (\"id\", 2usize)])"), "{code}");
}

#[test]
fn a_route_says_where_its_request_is_read_from() {
    let code = generated(
        "",
        "rpc Follow(Get) returns (stream Answer) { option (google.api.http) = { get: \"/parts/{id}:follow\" }; }\n\
         rpc Make(Get) returns (Answer) { option (google.api.http) = { put: \"/parts/{id}/{part_id}\" body: \"*\" }; }",
    )
    .unwrap();
    assert_eq!(patterns(&code), [r#"("GET", ["parts", _], "follow")"#, r#"("PUT", ["parts", _, _], "")"#]);
    assert!(code.contains("Route::rpc(&RPCS[0usize], false, path.into_variables([(\"id\", 1usize)]))"), "{code}");
    assert!(code.contains("&RPCS[1usize],\n                true,"), "{code}");
    // A stream does not answer HEAD.
    assert!(code.contains("(_, [\"parts\", _], \"follow\") => Route::OtherVerbs(\"GET\")"), "{code}");
}

#[test]
fn a_rule_that_cannot_be_expressed_fails_the_build_and_is_named() {
    let cases = [
        ("get: \"/parts/{id=**}\"", "a variable is one segment"),
        ("get: \"/parts/{id=a/*}\"", "a variable is a whole segment"),
        ("get: \"/parts/{id=parts}\"", "a variable is one segment"),
        ("get: \"/parts/x{id}\"", "a segment is a word or a variable"),
        ("get: \"/parts/*\"", "a wildcard outside a variable"),
        ("get: \"/parts/{id.name}\"", "a variable is a field of the request itself"),
        ("get: \"/parts/{}\"", "a variable without a name"),
        ("get: \"/parts/{nope}\"", "the variable `nope` is not a plain string field"),
        ("get: \"/parts/{size}\"", "the variable `size` is not a plain string field"),
        ("get: \"/parts/{tags}\"", "the variable `tags` is not a plain string field"),
        ("get: \"/parts/{id}/{id}\"", "the variable `id` is used twice"),
        ("get: \"parts\"", "a path begins with `/`"),
        ("get: \"/parts//x\"", "an empty segment"),
        ("get: \"/parts:\"", "nothing follows the `:`"),
        ("get: \"/a:b/c\"", "only the last segment may contain a `:`"),
        ("get: \"/1/2/3/4/5/6/7/8/9\"", "more than 8 segments"),
        ("get: \"/parts\" body: \"*\"", "this verb has no body"),
        ("post: \"/parts\" body: \"id\"", "a body is the whole message"),
        ("post: \"/parts\" body: \"*\" response_body: \"text\"", "response_body is not supported"),
        ("custom: { kind: \"PURGE\" path: \"/parts\" }", "only GET, POST, PUT, DELETE and PATCH"),
    ];
    for (rule, words) in cases {
        let error = get(rule).expect_err(rule);
        assert!(error.starts_with("Get: the HTTP rule `"), "{rule}: {error}");
        assert!(error.contains(words), "{rule}: {error}");
    }
}

#[test]
fn two_rpcs_cannot_share_a_verb_and_path() {
    let rpcs = rpc("One", "Get", "get: \"/parts/{id}\"") + &rpc("Two", "Get", "get: \"/parts/{part_id}\"");
    let error = generated("", &rpcs).unwrap_err();
    assert_eq!(error, "Two: the HTTP rule `GET /parts/{part_id}` is also one of One");
}

#[test]
fn a_query_string_takes_plain_fields_only() {
    for (field, words) in [
        ("Answer inner = 2;", "the message `inner`"),
        ("google.protobuf.Struct data = 2;", "the message `data`"),
        ("map<string, string> labels = 2;", "the map `labels`"),
        ("bytes raw = 2;", "the bytes field `raw`"),
        ("oneof one { string a = 2; }", "the oneof member `a`"),
    ] {
        let messages = format!("message Odd {{ string tenant = 1; {field} }}");
        let error = generated(&messages, &rpc("Odd", "Odd", "get: \"/odd\"")).expect_err(field);
        assert!(error.starts_with("Odd: ") && error.contains(words), "{error}");
        // A body can hold all of them.
        generated(&messages, &rpc("Odd", "Odd", "post: \"/odd\" body: \"*\"")).expect(field);
    }
}

#[test]
fn an_rpc_that_a_binding_cannot_express_fails_the_build() {
    let upstream = "rpc Up(stream Get) returns (Answer);";
    assert_eq!(generated("", upstream).unwrap_err(), "Up: client streaming has no HTTP form");
    let scopeless = generated("message Bare { string id = 1; }", "rpc Bare(Bare) returns (Answer);").unwrap_err();
    assert_eq!(scopeless, "Bare: its request has no plain string field `tenant`");
    let nested =
        get("get: \"/a\" additional_bindings { get: \"/b\" additional_bindings { get: \"/c\" } }").unwrap_err();
    assert_eq!(nested, "Get: additional_bindings inside additional_bindings");
}

#[test]
fn a_message_without_json_or_validator_fails_the_build_and_is_named() {
    let cases = [
        ("message Bad { double size = 1; }", "small.v1.Bad.size: a float field"),
        ("message Bad { map<int32, string> names = 1; }", "small.v1.Bad.names: a map whose keys are not strings"),
        (
            "message Bad { Inner inner = 1; } message Inner { repeated Bad bad = 1; }",
            "a message that can contain itself",
        ),
        (
            "enum Kind { KIND_UNSPECIFIED = 0; } message Bad { string tenant = 1; repeated Kind kinds = 2; }",
            "small.v1.Bad.kinds: a repeated or optional enum in a request",
        ),
    ];
    for (messages, problem) in cases {
        let request = if messages.contains("tenant") { "Bad" } else { "Get" };
        let error = generated(messages, &rpc("Get", request, "post: \"/parts\" body: \"*\"")).unwrap_err();
        assert!(error.contains(problem), "{messages}\n  {error}");
    }
}

#[test]
fn an_alias_of_an_unknown_field_fails_the_build() {
    let size = rpc("Get", "Get", "get: \"/parts\"");
    generated_with("", &size, &[(".small.v1.Get.size", "limit")]).unwrap();
    let error = generated_with("", &size, &[(".small.v1.Get.length", "limit")]).unwrap_err();
    assert!(error.contains(".small.v1.Get.length"), "{error}");
}
