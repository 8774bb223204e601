"""Answer the requests of `ruler batch export` with 8 replicas of vLLM, by Ray Data LLM."""

import json

import ray
from ray.data.llm import build_processor, vLLMEngineProcessorConfig


def asked(row):
    line = json.loads(row["text"])
    schema = line["body"]["response_format"]["json_schema"]["schema"]
    sampling = {
        "max_tokens": 8192,
        "structured_outputs": {"json": json.dumps(schema)},
    }
    return {
        "custom_id": line["custom_id"],
        "messages": line["body"]["messages"],
        "sampling_params": sampling,
    }


def answered(row):
    return {
        "custom_id": row["custom_id"],
        "text": row.get("generated_text"),
        "usage": {
            "prompt_tokens": row.get("num_input_tokens"),
            "completion_tokens": row.get("num_generated_tokens"),
        },
        "error": row.get("__inference_error__"),
    }


engine = vLLMEngineProcessorConfig(
    model_source="Qwen/Qwen3-32B", concurrency=8, should_continue_on_error=True
)
judge = build_processor(engine, preprocess=asked, postprocess=answered)
judge(ray.data.read_text("requests.jsonl")).write_json("replies")
