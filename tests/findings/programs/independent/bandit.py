"""Thompson-like bandit simulation with an adaptive quantile baseline."""
import torch


class Environment:
    def __init__(self, arms, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.means = torch.rand(arms, generator=self.gen)

    def pull(self, arms):
        noise = torch.randn(arms.shape, generator=self.gen) * 0.2
        return self.means[arms] + noise


class Policy(torch.nn.Module):
    def __init__(self, arms, hidden=256):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(arms, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, arms))
        self.register_buffer("context", torch.ones(1, arms))

    def forward(self):
        return torch.log_softmax(self.net(self.context), dim=-1)[0]


class Baseline:
    """Median of the rewards, to centre the policy gradient."""

    def __init__(self):
        self.rewards = []

    def add(self, rewards):
        self.rewards.append(rewards)

    def value(self):
        return torch.cat(self.rewards).sort().values[sum(map(len, self.rewards)) // 2]


def train(steps=300, batch=1024, arms=64):
    torch.manual_seed(2)
    env = Environment(arms, seed=4)
    policy = Policy(arms)
    opt = torch.optim.Adam(policy.parameters(), lr=3e-3)
    baseline = Baseline()
    for step in range(steps):
        logp = policy()
        picks = torch.multinomial(logp.exp().detach(), batch, replacement=True, generator=env.gen)
        reward = env.pull(picks)
        baseline.add(reward)
        advantage = reward - baseline.value()
        loss = -(logp[picks] * advantage).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 0:
            print(step, f"reward {reward.mean():.3f}")
    best = int(env.means.argmax())
    print("prob of best arm %.3f" % float(policy().exp()[best]))


if __name__ == "__main__":
    train()
