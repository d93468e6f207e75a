"""RLHF as one reproducible pipeline: data gate, SFT, reward model, KL-PPO, evaluation, rollback."""

__version__ = "0.1.0"
