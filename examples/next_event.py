"""Who passes it on next? Cascades of a made-up world whose true edges are known, so that answers can be checked.

Run it as a script, or cell by cell in an editor that knows ``# %%``.
"""

# %% A world: people, who hears from whom, and what spread. With data of your own: ``read(FILE)``
from ensue import History, evaluate, make
from ensue.data.world import make_world

world = make_world(num_users=16, num_cascades=400, seed=1)
print(f"{len(world.train):,} cascades to learn from, {len(world.test):,} to be tested on")

# %% Train a small HiDAN. Each report says where it stands; here only the last one is looked at.
predictor = make("next", "hidan", settings={"epochs": 4, "dim": 16, "table_dim": 8, "learning_rate": 0.005})
*_, report = predictor.fit(world.train, world.valid)
print(f"stopped after epoch {report.epoch}")

# %% Ask: people the model has never seen are welcome.
(answer,) = predictor.predict([History(("u003", "u007", "somebody new"))], k=3)
for choice in answer.choices:
    leaned = ", ".join(f"{attribution.value} {attribution.weight:.2f}" for attribution in choice.attributions)
    print(f"{choice.value}  {choice.score:.3f}  leaned on {leaned}")
print(f"{answer.in_vocabulary} of {answer.events} people known")

# %% Is it any good? Counting always stands beside it.
result = evaluate(predictor, world.test)
print(result.verdict)

# %% Keep it, and go on from there with what came later.
predictor.update(world.valid)
