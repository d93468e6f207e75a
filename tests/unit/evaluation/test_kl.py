"""KL estimators against numbers worked out by hand, and against the KL they estimate."""

import numpy as np
import pytest

from rlhf_pipeline.evaluation.kl import estimators, kl_metrics


def test_estimators_of_a_token_twice_as_likely_under_the_policy() -> None:
    found = estimators(np.log([0.5]), np.log([0.25]))  # log r = log(1/2)
    assert found["k1"][0] == pytest.approx(np.log(2))
    assert found["k2"][0] == pytest.approx(np.log(2) ** 2 / 2)
    assert found["k3"][0] == pytest.approx(0.5 - 1 + np.log(2))


def test_k1_and_k3_average_to_the_kl_of_two_distributions() -> None:
    policy, ref = np.array([0.7, 0.2, 0.1]), np.array([0.5, 0.3, 0.2])
    truth = np.sum(policy * np.log(policy / ref))
    every_token = estimators(np.log(policy), np.log(ref))
    assert np.sum(policy * every_token["k1"]) == pytest.approx(truth)
    assert np.sum(policy * every_token["k3"]) == pytest.approx(truth)


def test_per_token_weighs_tokens_and_per_sequence_weighs_responses() -> None:
    policy = [np.log([0.5, 0.5, 0.5]), np.log([0.5])]
    ref = [np.log([0.5, 0.5, 0.5]), np.log([0.25])]
    found = kl_metrics(policy, ref, [np.zeros(3), np.array([0.4])], ["a", "b"])
    one = np.log(2) - 0.5  # k3 of the only token that differs
    assert found["kl_per_token"] == pytest.approx(one / 4)
    assert found["kl_per_sequence"] == pytest.approx(one / 2)
    assert found["kl_per_token_k1"] == pytest.approx(np.log(2) / 4)
    assert found["kl_per_token_exact"] == pytest.approx(0.1)
    # Responses 0 and one around one / 2: sample variance one^2 / 2, divided by 2 responses.
    assert found["kl_per_sequence_se"] == pytest.approx(one / 2)


def test_equal_policies_have_none() -> None:
    logprobs = [np.log([0.2, 0.9])]
    found = kl_metrics(logprobs, logprobs, [np.zeros(2)], ["a"])
    assert set(found.values()) == {0.0}


def test_responses_of_unequal_number_are_refused() -> None:
    with pytest.raises(ValueError):
        kl_metrics([np.zeros(1)], [], [], ["a"])
