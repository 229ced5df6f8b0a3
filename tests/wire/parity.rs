//! One task, seen over every binding.

use serde_json::{Value, json};
use tricord::client::Binding;

use crate::raw::{fresh, normal, on_every_wire, output, say, say_at_once, say_to, with};
use crate::support::{Server, WIRES};

#[tokio::test]
async fn c61_a_task_is_the_same_tree_over_every_binding() {
    let server = Server::shared();
    let rich = json!({
        "metadata": {"trace": "a", "n": 1.5, "deep": {"list": [null, true, {}]}},
        "message": {
            "parts": [
                {"text": "chunks 2", "metadata": {"k": "v"}},
                {"text": "a piece", "mediaType": "text/plain"},
                {"data": {"a": [1, null, "x"]}},
                {"raw": "AAEC", "filename": "x.bin", "mediaType": "application/octet-stream"},
                {"url": "https://example.com/x"},
            ],
            "metadata": {"m": false},
            "extensions": ["https://example.com/one"],
            "referenceTaskIds": [fresh()],
            "contextId": fresh(),
        },
    });
    for made in WIRES {
        for words in
            [with(say(""), rich.clone()), say("fail"), say("ask"), say("tck-artifact-data"), say("tck-multi-turn")]
        {
            let task = server.ask(made, "SendMessage", words).send().await.ok()["task"].take();
            let get = async |wire: Binding| server.ask(wire, "GetTask", json!({"id": task["id"]})).send().await;
            let (json_rpc, http) = (get(Binding::JsonRpc).await, get(Binding::HttpJson).await);
            let inner = json_rpc.reply.text_lossy();
            // Not only the same tree but the same bytes.
            assert!(inner.contains(&http.reply.text_lossy()), "{made}: {inner}");
            let (json_rpc, http, grpc) = (json_rpc.ok(), http.ok(), get(Binding::Grpc).await.ok());
            assert_eq!(json_rpc, http, "{made}");
            assert_eq!(grpc, normal(&output("GetTask"), &json_rpc), "{made}");
            // The answer to the sender, a read and a list all have the same task.
            assert_eq!(normal(&output("GetTask"), &task), grpc, "{made}");
            for wire in WIRES {
                let ask = json!({"contextId": task["contextId"], "includeArtifacts": true});
                let list = server.ask(wire, "ListTasks", ask).send().await.ok();
                let found = list["tasks"].as_array().unwrap().iter().find(|found| found["id"] == task["id"]).unwrap();
                assert_eq!(normal(&output("GetTask"), found), grpc, "{made}, listed on {wire}");
            }
        }
    }
}

#[tokio::test]
async fn c61_a_task_started_over_one_binding_continues_over_another() {
    let server = Server::shared();
    for made in WIRES {
        for other in WIRES {
            let asked = server.make(made, "tck-multi-turn").await;
            let id = asked["id"].as_str().unwrap();
            let answered = server.ask(other, "SendMessage", say_to(id, "more")).send().await.ok();
            assert_eq!(answered["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{made}, {other}");
            let mut stream = server.ask(other, "SubscribeToTask", json!({"id": id})).stream().await;
            stream.event().await;
            let canceled = server.ask(made, "CancelTask", json!({"id": id})).send().await.ok();
            assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{made}, {other}");
            assert_eq!(stream.rest().await.last().unwrap().state(), "TASK_STATE_CANCELED", "{made}, {other}");
        }
    }
}

#[tokio::test]
async fn c62_pieces_form_one_artifact_and_a_new_first_piece_replaces_it() {
    let server = Server::shared();
    on_every_wire(|wire| async move {
        let task = server.make(wire, "chunks 3").await;
        let artifacts = task["artifacts"].as_array().unwrap();
        assert_eq!((artifacts.len(), artifacts[0]["parts"].as_array().unwrap().len()), (1, 3), "{wire}");
        assert_eq!(artifacts[0]["name"], "chunks", "{wire}");
        assert_eq!(task["status"].get("message"), None, "{wire}: a progress message is not the final status message");
        // Two turns write the same artifact. The second one replaces it.
        let gate = fresh();
        let begun = server.ask(wire, "SendMessage", say_at_once(&format!("gate {gate} chunks 3"))).send().await.ok();
        let id = begun["task"]["id"].as_str().unwrap();
        let second = with(say_to(id, ""), json!({"message": {"parts": [{"text": "chunks 1"}, {"text": "anew"}]}}));
        let second = with(second, json!({"configuration": {"returnImmediately": true}}));
        server.ask(wire, "SendMessage", second).send().await.ok();
        let mut stream = server.ask(wire, "SubscribeToTask", json!({"id": id})).stream().await;
        server.make(wire, &format!("open {gate}")).await;
        stream.rest().await;
        let task = server.task(wire, id).await;
        let parts: Vec<Value> = task["artifacts"].as_array().unwrap().iter().map(|a| a["parts"].clone()).collect();
        assert_eq!(parts, [json!([{"text": "anew"}])], "{wire}");
    })
    .await;
}
