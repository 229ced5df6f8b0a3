"""An agent served by another library over all three bindings. Prints its URL and serves until it is stopped.

It answers word by word, `ask` with a question, `say X` with a message X and no task, and waits between words where the
message begins with `slow`."""

import asyncio
import socket
import uuid

import grpc
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2, a2a_pb2_grpc
from starlette.applications import Starlette


class Words(AgentExecutor):
    async def execute(self, context, queue):
        updater = TaskUpdater(queue, context.task_id, context.context_id)
        words = context.get_user_input().split(" ")
        if words[0] == "say":
            parts = [a2a_pb2.Part(text=" ".join(words[1:]))]
            message = a2a_pb2.Message(message_id=str(uuid.uuid4()), role=a2a_pb2.ROLE_AGENT, parts=parts)
            await queue.enqueue_event(message)
            return
        if not context.current_task:
            status = a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_SUBMITTED)
            task = a2a_pb2.Task(id=context.task_id, context_id=context.context_id, status=status)
            await queue.enqueue_event(task)
        await updater.start_work()
        if words[0] == "ask":
            await updater.requires_input(updater.new_agent_message([a2a_pb2.Part(text="which?")]))
            return
        for at, word in enumerate(words):
            await updater.add_artifact([a2a_pb2.Part(text=word + " ")], artifact_id="a", append=at > 0)
            await asyncio.sleep(0.2 if words[0] == "slow" else 0)
        await updater.complete()

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


async def main():
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = grpc.aio.server()
    grpc_port = server.add_insecure_port("127.0.0.1:0")
    interfaces = [
        a2a_pb2.AgentInterface(url=address, protocol_binding=binding, protocol_version="1.0")
        for binding, address in [
            ("JSONRPC", f"{url}/rpc"),
            ("GRPC", f"127.0.0.1:{grpc_port}"),
            ("HTTP+JSON", f"{url}/rest"),
        ]
    ]
    card = a2a_pb2.AgentCard(
        name="words",
        description="Answers word by word",
        version="1",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=a2a_pb2.AgentCapabilities(streaming=True),
        skills=[a2a_pb2.AgentSkill(id="words", name="Words", description="Words", tags=["words"])],
        supported_interfaces=interfaces,
    )
    handler = DefaultRequestHandler(Words(), InMemoryTaskStore(), card)
    routes = create_agent_card_routes(card)
    routes += create_jsonrpc_routes(handler, "/rpc")
    routes += create_rest_routes(handler, path_prefix="/rest")
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
    await server.start()
    print(url, flush=True)
    config = uvicorn.Config(Starlette(routes=routes), log_level="error")
    await uvicorn.Server(config).serve(sockets=[listener])


asyncio.run(main())
