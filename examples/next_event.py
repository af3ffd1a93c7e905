"""Who shares it next? Cascades of the made-up town of ``ensue demo``, whose true network is known.

Run it as a script, or cell by cell in an editor that knows ``# %%``.
"""

# %% Cascades: who passed each post on, and when. With data of your own: ``fit("cascades.csv")``
from ensue import NextEvent
from ensue.demo.town import make_town

cascades = make_town(num_posts=400, num_reads=100, num_searches=100).cascades
print(f"{len(cascades.train):,} cascades for training, {len(cascades.test):,} for testing")

# %% Train a small HiDAN.
model = NextEvent("hidan", epochs=4, dim=16, table_dim=8, learning_rate=0.005)
model.fit(cascades.train, cascades.valid)

# %% Predict; people that the model has never seen are allowed.
(answer,) = model.predict([["karl.coach", "rosa.teaches", "somebody new"]], k=3, explain=True)
for choice in answer.choices:
    weights = ", ".join(f"{attribution.value} {attribution.weight:.2f}" for attribution in choice.attributions)
    print(f"{choice.value}  {choice.score:.3f}  attributions: {weights}")
print(f"{answer.in_vocabulary} of {answer.events} people in vocabulary")

# %% Evaluate it next to the baselines.
result = model.evaluate(cascades.test)
print(result.verdict)

# %% Save it, and train it further on later data.
model.update(cascades.valid)
