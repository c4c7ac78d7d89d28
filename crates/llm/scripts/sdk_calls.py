"""Calls a server through the SDKs that people use, and prints what is wrong.

    pip install openai litellm langchain-openai llama-index-llms-openai-like
    python sdk_calls.py http://127.0.0.1:8000/v1 MODEL

The model may be of random weights: the calls check forms, counts and errors, not answers.
"""

import asyncio
import sys

import openai

BASE, MODEL = sys.argv[1], sys.argv[2]
USER = [{"role": "user", "content": "the man"}]
TOOL = {"type": "function", "function": {"name": "weather", "description": "Weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Ulm", "Bonn"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city"], "additionalProperties": False}}}
SCHEMA = {"type": "object", "properties": {"name": {"enum": ["Ann", "Bob"]}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["name", "age"], "additionalProperties": False}
CALLS = []


def call(function):
    CALLS.append(function)
    return function


client = openai.OpenAI(base_url=BASE, api_key="none", max_retries=0)


def chat(**more):
    return client.chat.completions.create(model=MODEL, messages=more.pop("messages", USER), max_tokens=more.pop("max_tokens", 8), **more)


def fails(kind, code, **more):
    try:
        chat(**more)
    except kind as error:
        assert code is None or error.param == code or error.code == code, (error.param, error.code, error)
        return
    raise AssertionError(f"{more} was accepted")


# Chat completions, with each field of OpenAI's schema that a text model has.
FIELDS = [
    {}, {"temperature": 0}, {"temperature": 2}, {"top_p": 0.5}, {"n": 3}, {"stop": "x"}, {"stop": ["x", "y"]}, {"presence_penalty": 1.5},
    {"frequency_penalty": -1}, {"logit_bias": {"65": 10}}, {"user": "me"}, {"seed": 7}, {"logprobs": True}, {"logprobs": True, "top_logprobs": 3},
    {"max_completion_tokens": 5}, {"response_format": {"type": "text"}}, {"tools": [TOOL]}, {"tools": [TOOL], "tool_choice": "none"},
    {"tools": [TOOL], "parallel_tool_calls": False}, {"metadata": {"a": "b"}}, {"store": False}, {"service_tier": "auto"}, {"reasoning_effort": "low"},
    {"extra_body": {"top_k": 5, "min_p": 0.1}}, {"extra_body": {"repetition_penalty": 1.1}}, {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
    {"extra_body": {"bad_words": ["the"]}}, {"extra_body": {"allowed_token_ids": [65, 66]}}, {"extra_body": {"structured_outputs": {"choice": ["yes", "no"]}}},
    {"messages": [{"role": "system", "content": "Be brief."}, *USER]}, {"messages": [{"role": "developer", "content": "Be brief."}, *USER]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
    {"messages": [*USER, {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
                  {"role": "tool", "tool_call_id": "a", "content": "rain"}]},
]
for fields in FIELDS:
    @call
    def whole(fields=fields):
        answer = chat(**fields)
        assert len(answer.choices) == fields.get("n", 1) and answer.object == "chat.completion"
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
        assert answer.usage.completion_tokens_details.reasoning_tokens >= 0 and answer.usage.prompt_tokens_details.cached_tokens >= 0
        for choice in answer.choices:
            assert choice.finish_reason in ("stop", "length", "tool_calls") and choice.message.role == "assistant"
            assert bool(choice.logprobs) == bool(fields.get("logprobs"))

    @call
    def streamed(fields=fields):
        chunks = list(chat(stream=True, stream_options={"include_usage": True}, **fields))
        assert chunks[-1].usage.total_tokens > 0 and not chunks[-1].choices
        ends = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
        assert len(ends) == fields.get("n", 1)

# Errors, by the class of the SDK and the field.
for fields, kind, code in [
    ({"temperature": 3}, openai.BadRequestError, "temperature"), ({"top_p": 2}, openai.BadRequestError, "top_p"),
    ({"n": 0}, openai.BadRequestError, "n"), ({"logprobs": True, "top_logprobs": 25}, openai.BadRequestError, "top_logprobs"),
    ({"stream_options": {"include_usage": True}}, openai.BadRequestError, "stream_options"), ({"messages": []}, openai.BadRequestError, "messages"),
    ({"messages": [{"role": "pirate", "content": "x"}]}, openai.BadRequestError, "messages[0]"), ({"stop": ["x"] * 17}, openai.BadRequestError, "stop"),
    ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}}, openai.BadRequestError, "tool_choice"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "none"}}}}, openai.BadRequestError, "response_format"),
    ({"messages": [{"role": "user", "content": "x" * 100_000}]}, openai.BadRequestError, "context_length_exceeded"),
    ({"max_tokens": 10**9}, openai.BadRequestError, "context_length_exceeded"),
]:
    @call
    def refused(fields=fields, kind=kind, code=code):
        fails(kind, code, **fields)


@call
def another_model():
    try:
        client.chat.completions.create(model="gpt-9", messages=USER)
    except openai.NotFoundError as error:
        assert error.code == "model_not_found"
        return
    raise AssertionError("another model answered")


@call
def models():
    assert client.models.list().data[0].id == MODEL and client.models.retrieve(MODEL).id == MODEL


@call
def required_tool():
    message = chat(tools=[TOOL], tool_choice="required", max_tokens=300).choices[0].message
    assert message.tool_calls[0].function.name == "weather"


@call
def named_tool_streams():
    named = {"type": "function", "function": {"name": "weather"}}
    with client.chat.completions.stream(model=MODEL, messages=USER, tools=[TOOL], tool_choice=named, max_tokens=300) as stream:
        kinds = {event.type for event in stream}
        calls = stream.get_final_completion().choices[0].message.tool_calls
    assert len(calls) == 1 and "tool_calls.function.arguments.delta" in kinds, kinds


@call
def parsed_schema():
    from pydantic import BaseModel

    class Flag(BaseModel):
        yes: bool

    assert client.chat.completions.parse(model=MODEL, messages=USER, response_format=Flag, max_tokens=300).choices[0].message.parsed is not None


# Completions.
for fields in [{}, {"echo": True}, {"logprobs": 2}, {"n": 2}, {"stop": "e"}, {"seed": 1}, {"suffix": ""}, {"best_of": 1}, {"user": "me"}]:
    @call
    def completion(fields=fields):
        assert len(client.completions.create(model=MODEL, prompt="the", max_tokens=5, **fields).choices) == fields.get("n", 1)

    @call
    def completion_stream(fields=fields):
        assert list(client.completions.create(model=MODEL, prompt="the", max_tokens=5, stream=True, **fields))


@call
def several_prompts():
    assert len(client.completions.create(model=MODEL, prompt=["the", "man"], max_tokens=2).choices) == 2
    assert client.completions.create(model=MODEL, prompt=[65, 66], max_tokens=2).usage.prompt_tokens == 2


# Responses.
for fields in [{}, {"instructions": "in"}, {"temperature": 0}, {"top_p": 0.9}, {"metadata": {"a": "b"}}, {"text": {"format": {"type": "text"}}}, {"store": False},
               {"include": ["message.output_text.logprobs"], "top_logprobs": 2}, {"tools": [{"type": "function", "strict": False, **TOOL["function"]}]},
               {"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]}, {"parallel_tool_calls": False}, {"truncation": "disabled"}]:
    @call
    def response(fields=fields):
        answer = client.responses.create(model=MODEL, **{"input": "the", "max_output_tokens": 8, **fields})
        assert answer.usage.output_tokens_details.reasoning_tokens >= 0 and answer.usage.input_tokens_details.cached_tokens >= 0
        assert answer.status in ("completed", "incomplete") and isinstance(answer.output_text, str)

    @call
    def response_stream(fields=fields):
        events = list(client.responses.create(model=MODEL, stream=True, **{"input": "the", "max_output_tokens": 8, **fields}))
        assert events[0].type == "response.created" and events[-1].type in ("response.completed", "response.incomplete")
        assert [event.sequence_number for event in events] == list(range(len(events)))


@call
def response_stream_that_ends():
    format = {"type": "json_schema", "name": "person", "schema": SCHEMA}
    with client.responses.stream(model=MODEL, input="the", max_output_tokens=300, extra_body={"text": {"format": format}}) as stream:
        final = stream.get_final_response()
    assert final.status == "completed" and '"name"' in final.output_text, final


@call
def response_stream_that_is_cut():
    """The SDK's helper knows `response.completed` alone: a cut answer, whose last event is `response.incomplete`, it refuses."""
    with client.responses.stream(model=MODEL, input="the", max_output_tokens=2) as stream:
        last = list(stream)[-1]
        assert last.type == "response.incomplete" and last.response.incomplete_details.reason == "max_output_tokens", last
        assert last.response.output[-1].status == "incomplete" and last.response.usage.output_tokens == 2, last
        try:
            stream.get_final_response()
        except RuntimeError as error:
            assert "response.completed" in str(error)
            return
    raise AssertionError("the SDK returns cut answers now: remove this")


@call
def asynchronous():
    async def many():
        other = openai.AsyncOpenAI(base_url=BASE, api_key="none", max_retries=0)
        answers = await asyncio.gather(*(other.chat.completions.create(model=MODEL, messages=USER, max_tokens=8) for _ in range(16)))
        assert len(answers) == 16

    asyncio.run(many())


@call
def litellm_whole_stream_and_error():
    import litellm

    common = {"model": f"openai/{MODEL}", "api_base": BASE, "api_key": "none", "max_tokens": 8}
    assert litellm.completion(messages=USER, **common).choices[0].finish_reason
    assert list(litellm.completion(messages=USER, stream=True, **common))
    assert litellm.completion(messages=USER, tools=[TOOL], tool_choice="required", **{**common, "max_tokens": 300}).choices[0].message.tool_calls
    assert litellm.text_completion(prompt="the", **{**common, "model": f"text-completion-openai/{MODEL}"}).choices
    try:
        litellm.completion(messages=[{"role": "user", "content": "x" * 100_000}], **common)
    except litellm.ContextWindowExceededError:
        return
    except litellm.BadRequestError:
        return
    raise AssertionError("a long prompt was accepted")


@call
def langchain_whole_stream_tools_and_schema():
    from langchain_openai import ChatOpenAI, OpenAI

    model = ChatOpenAI(model=MODEL, base_url=BASE, api_key="none", max_tokens=300, max_retries=0)
    assert model.bind(max_tokens=8).invoke("the man").usage_metadata["total_tokens"] > 0
    assert list(model.bind(max_tokens=8).stream("the man"))
    assert model.bind_tools([TOOL], tool_choice="weather").invoke("the man").tool_calls[0]["name"] == "weather"
    whole = None
    for chunk in model.bind_tools([TOOL], tool_choice="weather").stream("the man"):
        whole = chunk if whole is None else whole + chunk
    assert whole.tool_calls[0]["args"]["city"] in ("Ulm", "Bonn")
    assert model.with_structured_output({"title": "person", **SCHEMA}, method="json_schema").invoke("the")["name"] in ("Ann", "Bob")
    assert isinstance(OpenAI(model=MODEL, base_url=BASE, api_key="none", max_tokens=5).invoke("the"), str)


@call
def llama_index_whole_and_stream():
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike

    model = OpenAILike(model=MODEL, api_base=BASE, api_key="none", is_chat_model=True, max_tokens=8, max_retries=0)
    assert model.chat([ChatMessage(role="user", content="the man")]).message.role == "assistant"
    assert list(model.stream_chat([ChatMessage(role="user", content="the man")]))
    assert isinstance(OpenAILike(model=MODEL, api_base=BASE, api_key="none", is_chat_model=False, max_tokens=5).complete("the").text, str)


def main():
    wrong = 0
    for function in CALLS:
        try:
            function()
        except Exception as error:
            wrong += 1
            print(f"{function.__name__} {function.__defaults__ or ''}: {type(error).__name__}: {error}"[:400])
    print(f"{len(CALLS)} calls, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
