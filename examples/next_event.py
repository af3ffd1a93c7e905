"""Who passes it on next? Cascades of a made-up world whose true edges are known, so that answers can be checked.

Run it as a script, or cell by cell in an editor that knows ``# %%``.
"""

# %% A world: people, who hears from whom, and what spread. With data of your own: ``fit("cascades.csv")``
from ensue import NextEvent
from ensue.data.world import make_world

world = make_world(num_users=16, num_cascades=400, seed=1)
print(f"{len(world.train):,} cascades for training, {len(world.test):,} for testing")

# %% Train a small HiDAN.
model = NextEvent("hidan", epochs=4, dim=16, table_dim=8, learning_rate=0.005)
model.fit(world.train, world.valid)

# %% Predict; people that the model has never seen are allowed.
(answer,) = model.predict([["u003", "u007", "somebody new"]], k=3, explain=True)
for choice in answer.choices:
    weights = ", ".join(f"{attribution.value} {attribution.weight:.2f}" for attribution in choice.attributions)
    print(f"{choice.value}  {choice.score:.3f}  attributions: {weights}")
print(f"{answer.in_vocabulary} of {answer.events} people in vocabulary")

# %% Evaluate it next to the baselines.
result = model.evaluate(world.test)
print(result.verdict)

# %% Save it, and train it further on later data.
model.update(world.valid)
