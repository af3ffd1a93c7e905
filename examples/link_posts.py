"""Which posts are about this story? Posts and articles, probabilities, and the sentence that matches.

Run it as a script, or cell by cell in an editor that knows ``# %%``.
"""

# %% Articles, and posts that are known to be about them. Of files: ``fit("posts.csv", "articles.csv")``
from ensue import PostLinker

STORIES = {
    "bridge": "The old bridge over the river was closed on Monday. Engineers found cracks in two of its arches.",
    "school": "The school has a new headmaster. Pupils and teachers met him in the hall after the holidays.",
    "market": "The Saturday market moves to the square. Traders had asked for more room for their stalls.",
}
TEXTS = {
    "bridge": ("cracks in the arches of the bridge", "the bridge is closed, long way round", "engineers on the bridge"),
    "school": ("who is the new headmaster", "pupils and teachers in the hall", "a new headmaster at the school"),
    "market": ("more room for stalls on the square", "the market moves", "traders asked for the square"),
}
posts = [
    (f"{text} {extra}", [name])
    for name, texts in TEXTS.items()
    for text in texts
    for extra in ("today", "again", "they say")
]

# %% Train it: how much each similarity counts, and the probability that a score stands for.
model = PostLinker().fit(posts, STORIES)

# %% Ask about a new post.
(answer,) = model.predict(["all those cracks, no wonder they closed the bridge"], k=2, explain=True)
for choice in answer.choices:
    print(f"{choice.value}  P(relevant) {choice.probability:.2f}  “{choice.sentence}”")

# %% A story that broke just now is welcome, without any post about it.
model.update([], {"comet": "A comet was seen over the town at night."})
(comet,) = model.predict(["did you see that comet?"], k=1).values
print(comet[0])
