"""Which label fits? Short texts, calibrated probabilities, and the words that a label attended to.

Run it as a script, or cell by cell in an editor that knows ``# %%``.
"""

# %% Labelled texts. With data of your own: ``fit("texts.csv")``
from itertools import pairwise

from ensue import TextClassifier

GOOD, BAD = ("fine", "lovely", "great", "warm"), ("dull", "poor", "awful", "cold")
THINGS = ("film", "plot", "actor", "music", "ending", "scene")
rows = [
    (f"a {word} {thing} and a {other} {last}", label)
    for label, words in (("good", GOOD), ("bad", BAD))
    for word in words
    for other in words
    for thing, last in pairwise(THINGS)
]
texts, labels = map(list, zip(*rows, strict=True))
print(f"{len(texts)} texts")

# %% Train attention by eigenvector centrality, small.
model = TextClassifier("centrality", hidden=16, dim=16, head=16).fit(texts, labels)

# %% Predict, with the words each label attended to and the score drop without them.
text = "a lovely plot and a warm ending"
print(model.predict([text]), model.predict_proba([text]).round(2))
(explanation,) = model.explain([text])
answer = explanation.answer
best = answer.choices[0]
words = [attribution.value for attribution in best.attributions]
print(f"{best.value} with probability {best.score:.2f}; attended to {words}")
if answer.deletion:
    test = answer.deletion
    print(f"score drop without them {test.score_drop:.2f}, without random ones {test.random:.2f}")

# %% The graph behind it, as a page that needs nothing else: ``ensue.figures.write_html(figure, path)``
from ensue import figures

figure = figures.word_graph(explanation)
print(f"a graph of {len(explanation.passages[0].words)} words")
