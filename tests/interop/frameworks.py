"""Agents of other frameworks that answer a question of ours: each has to ask once, take the answer and finish.

Usage: frameworks.py FRAMEWORK URL
"""

import asyncio
import sys

import httpx


async def google_adk(url):
    from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    agent = RemoteA2aAgent(name="kit", agent_card=f"{url}/.well-known/agent-card.json", use_legacy=False)
    runner = InMemoryRunner(agent=agent, app_name="kit")
    session = await runner.session_service.create_session(app_name="kit", user_id="user")

    async def say(text):
        events = []
        content = types.Content(role="user", parts=[types.Part(text=text)])
        async for event in runner.run_async(user_id="user", session_id=session.id, new_message=content):
            assert not event.error_message, event.error_message
            events.append(event)
        return events

    def asks(events):
        return sum(call.name != "" for event in events for call in event.get_function_calls())

    first = await say("ask")
    assert asks(first) >= 1, first
    second = await say("42")
    assert asks(second) == 0, second
    third = [event.content for event in await say("echo hello") if event.content]
    texts = [part.text for content in third for part in content.parts or [] if part.text]
    assert "hello" in "".join(texts), third


async def agent_framework(url):
    from a2a.client import A2ACardResolver
    from agent_framework.a2a import A2AAgent

    async with httpx.AsyncClient(timeout=30) as client:
        card = await A2ACardResolver(client, url).get_agent_card()
        for binding in ["JSONRPC", "HTTP+JSON"]:
            for stream in [False, True]:
                await ask_and_answer(A2AAgent(agent_card=card, supported_protocol_bindings=[binding]), stream)


async def ask_and_answer(agent, stream):
    session = agent.create_session()

    async def say(text):
        if not stream:
            return await agent.run(text, session=session)
        response = agent.run(text, session=session, stream=True)
        async for _ in response:
            pass
        return await response.get_final_response()

    first = await say("ask")
    assert len(first.user_input_requests) == 1, first
    second = await say("42")
    assert len(second.user_input_requests) == 0, second.text
    third = await say("echo hello")
    assert "hello" in third.text, third.text


asyncio.run({"google-adk": google_adk, "agent-framework": agent_framework}[sys.argv[1]](sys.argv[2]))
print("ok", sys.argv[1])
