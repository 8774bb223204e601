"""Names of fields: of prompts, answers, tools and references, the best first."""

from __future__ import annotations

from ruler_cli.files.values import words
from ruler_cli.messages.conversations import SYSTEM

PROMPTS = words(
    "prompt instruction question query problem input user_input user_prompt user_query user_message"
)
"""Fields with the prompt, best first."""
WITH_CONTEXT = words("instruction query question user_input user_query")
"""Prompts that a `context` beside them completes; other prompts mostly hold it themselves."""
TASKS = (
    *PROMPTS,
    *words(
        "task goal objective task_description task.instruction task.description originalInput original_input "
        "initial_obs initial_observation"
    ),
)
"""Paths of the task of a record with an agent's steps alone."""
FURTHER_PROMPTS = words(
    "input.messages question.full_text inputs context history"
)
"""Further paths of a pair's prompt: in sets of OpenAI, WebGPT, HelpSteer 3 and SHP."""
ANSWERS = words(
    "completion response generation generated model_output prediction output actual_output actualOutput "
    "assistant_response agent_response model_answer full_output final_text"
)
"""Fields with an answer beside its prompt, best first. Not `answer`: that is mostly the reference answer."""
ANSWER_LISTS = words(
    "responses completions outputs generations choices rollouts"
)
"""Fields with several answers to one prompt. Not `candidates`: those are mostly the options of a question."""
STEP_LISTS = words("steps trajectory history trace turns")
"""Lists of an agent's steps."""
SUBMISSIONS = words(
    "model_patch generated_patch git_patch info.submission test_result.git_patch test_result.model_patch"
)
"""Paths of a patch that an agent submitted. Never `patch`, `test_patch` and `gold_patch`: SWE-bench's data
sets have the reference solution there, which the judge must not see."""
TOOLS = words("functions tool_definitions info.oai_tools")
"""Fields that hold tools beside `tools`: OpenAI's old name, Azure's evaluation, verifiers."""
CONVERSATION = (
    *words(
        "messages messages_and_choices exchanges additional_histories trajectories conversations conversation"
    ),
    *words(
        "contents context history chat_history events loglines spans observations request response tools"
    ),
    *(
        *TASKS,
        *FURTHER_PROMPTS,
        *ANSWERS,
        *ANSWER_LISTS,
        *STEP_LISTS,
        *SUBMISSIONS,
        *TOOLS,
        *SYSTEM,
    ),
)
"""Fields that a reader may show: a score is not written there."""
