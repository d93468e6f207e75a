"""A model folder's tokenizer and chat template without torch: renders conversations, counts tokens.

Uses tokenizer.json and the template that the folder carries, as transformers would; a test holds the
two together. Loading takes milliseconds instead of the seconds that transformers needs.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Encoding, Tokenizer

from ..errors import DataError
from .items import Message

RENDER_ERRORS = (jinja2.TemplateError, TypeError, ValueError)
"""What a template raises on a conversation that it does not accept."""


class ChatTokenizer:
    """Tokenizer, chat template and special tokens of a Hugging Face model folder.

    Raises:
        DataError: when tokenizer.json or the chat template is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise DataError(f"{path} is missing; save the model's tokenizer as a fast tokenizer there")
        self.tokenizer = Tokenizer.from_file(str(path))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self._config = self._json("tokenizer_config.json") | self._json("special_tokens_map.json")
        self.bos, self.eos, self.pad = (self._special(f"{name}_token") for name in ("bos", "eos", "pad"))
        self._template = self._compiled()

    def _json(self, name: str) -> dict[str, Any]:
        path = self._folder / name
        try:
            return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
        except ValueError as error:
            raise DataError(f"{path} is damaged: {error}") from None

    def _special(self, name: str) -> str | None:
        token = self._config.get(name)
        return token["content"] if isinstance(token, dict) else token

    def _compiled(self) -> jinja2.Template:
        path = self._folder / "chat_template.jinja"
        source = path.read_text(encoding="utf-8") if path.is_file() else self._config.get("chat_template")
        if isinstance(source, list):
            source = {entry["name"]: entry["template"] for entry in source}.get("default")
        if not isinstance(source, str):
            raise DataError(
                f"{self._folder} has no chat template (chat_template.jinja or tokenizer_config.json)"
            )
        try:
            return _environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise DataError(f"the chat template of {self._folder} is not valid: {error}") from None

    def render(self, messages: Sequence[Message], add_generation_prompt: bool) -> str:
        """The conversation as text.

        Raises:
            One of `RENDER_ERRORS` when the template refuses the conversation.
        """
        tokens = {"bos_token": self.bos, "eos_token": self.eos, "pad_token": self.pad}
        return self._template.render(messages=messages, add_generation_prompt=add_generation_prompt, **tokens)

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Token ids without added special tokens (the template writes those), on every core."""
        return self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)

    def special_tokens(self) -> list[str]:
        """Texts that the tokenizer turns into one special token wherever they stand."""
        added = self.tokenizer.get_added_tokens_decoder().values()
        return sorted(token.content for token in added if token.special)

    def adds_bos(self) -> bool:
        """Whether plain encoding puts BOS first by itself."""
        if self.bos is None:
            return False
        return self.tokenizer.encode("a").ids[:1] == [self.tokenizer.token_to_id(self.bos)]

    def expected_bos(self) -> int:
        """BOS tokens a conversation must start with: 1 if encoding adds one or the template writes one."""
        if self.bos is None:
            return 0
        try:
            probe = self.render([{"role": "user", "content": "a"}], True)
        except RENDER_ERRORS:
            probe = ""
        return int(self.adds_bos() or probe.startswith(self.bos))

    def leading_bos(self, rendered: str) -> int:
        """How many BOS tokens a rendered conversation starts with."""
        count = 0
        while self.bos and rendered.startswith(self.bos, count * len(self.bos)):
            count += 1
        return count


class _Generation(Extension):
    """`{% generation %}` blocks, which mark the assistant's text for training and print unchanged."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it per instance

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda layout: datetime.datetime.now().strftime(layout)
    environment.filters["tojson"] = _to_json
    return environment


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)
