"""verl's own KL code with our controllers and estimator names, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from rlhf_pipeline.ppo.kl_controllers import AdaptiveKLController, MovingAverageKLController
from rlhf_pipeline.ppo.overrides import KL_ESTIMATORS

pytestmark = pytest.mark.slow

LOG2, LOG3 = math.log(2), math.log(3)
# Two responses: two tokens, twice and three times as likely under the policy as under the reference; and one
# token, half as likely, with a position of padding behind it.
POLICY = [[math.log(0.5), math.log(0.6)], [math.log(0.2), 0.0]]
REF = [[math.log(0.25), math.log(0.2)], [math.log(0.4), -5.0]]
MASK = [[1.0, 1.0], [1.0, 0.0]]
# k1 = -log r, k2 = (log r)^2 / 2, k3 = r - 1 - log r, with r = 1/2, 1/3, 2.
EXPECTED = {
    "k1": [[LOG2, LOG3], [-LOG2]],
    "k2": [[LOG2**2 / 2, LOG3**2 / 2], [LOG2**2 / 2]],
    "k3": [[LOG2 - 1 / 2, LOG3 - 2 / 3], [1 - LOG2]],
}


@pytest.mark.parametrize("estimator", EXPECTED)
def test_estimator_names_mean_the_same_to_verl(estimator):
    import torch
    from verl.trainer.ppo.core_algos import kl_penalty

    found = kl_penalty(torch.tensor(POLICY), torch.tensor(REF), KL_ESTIMATORS[estimator])
    expected = EXPECTED[estimator]
    assert found[0].tolist() == pytest.approx(expected[0], rel=1e-5)
    assert found[1, 0].item() == pytest.approx(expected[1][0], rel=1e-5)


@pytest.mark.parametrize("estimator", EXPECTED)
def test_the_penalty_in_the_reward_uses_and_moves_our_controller(estimator):
    import torch
    from verl import DataProto
    from verl.trainer.ppo.ray_trainer import apply_kl_penalty

    data = DataProto.from_dict(
        {
            "response_mask": torch.tensor(MASK),
            "token_level_scores": torch.tensor([[0.0, 1.0], [2.0, 0.0]]),
            "old_log_probs": torch.tensor(POLICY),
            "ref_log_prob": torch.tensor(REF),
        }
    )
    controller = MovingAverageKLController(0.1, target=0.05, horizon=100, decay=0.5, gain=1.0)
    data, metrics = apply_kl_penalty(data, controller, kl_penalty=KL_ESTIMATORS[estimator])
    kl = EXPECTED[estimator]
    rewards = data.batch["token_level_rewards"].tolist()
    assert rewards[0] == pytest.approx([-0.1 * kl[0][0], 1.0 - 0.1 * kl[0][1]], rel=1e-5)
    assert rewards[1] == pytest.approx([2.0 - 0.1 * kl[1][0], 0.0], rel=1e-5)
    # The mean over responses of the mean over their tokens.
    measured = ((kl[0][0] + kl[0][1]) / 2 + kl[1][0]) / 2
    assert metrics["actor/reward_kl_penalty"] == pytest.approx(measured, rel=1e-5)
    assert metrics["actor/reward_kl_penalty_coeff"] == 0.1
    # m / 0.05 - 1 is above 1 for all three, so the base grows by 2 / 100 and is raised by m / 0.05.
    assert controller.value == pytest.approx(0.1 * 1.02 * min(100, measured / 0.05), rel=1e-5)


def test_adaptive_is_verls_controller_step_for_step():
    from verl.trainer.ppo.core_algos import AdaptiveKLController as Theirs

    ours, theirs = AdaptiveKLController(0.05, 0.1, 500), Theirs(0.05, 0.1, 500)
    for measured in (0.0, 0.05, 0.11, 0.4, -0.2, 0.09):
        ours.update(measured, 64)
        theirs.update(measured, 64)
        assert ours.value == pytest.approx(theirs.value, rel=1e-12)


def test_the_term_in_the_loss():
    """The loss term over the same tokens: coef x the mean KL of all of them."""
    import torch
    from verl.trainer.ppo.core_algos import agg_loss, kl_penalty

    kld = kl_penalty(torch.tensor(POLICY), torch.tensor(REF), KL_ESTIMATORS["k3"])
    loss = 0.01 * agg_loss(kld, torch.tensor(MASK), loss_agg_mode="token-mean")
    kl = EXPECTED["k3"]
    assert loss.item() == pytest.approx(0.01 * (kl[0][0] + kl[0][1] + kl[1][0]) / 3, rel=1e-5)
