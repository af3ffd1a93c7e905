"""Which posts are about this story? Posts and articles, probabilities, and the sentence that matches.

Run it as a script, or cell by cell in an editor that knows ``# %%``.
"""

# %% Articles, and posts that are known to be about them. Of files: ``read_corpus(POSTS, ARTICLES)``
from ensue import Article, Articles, Corpus, Post, Posts, make

STORIES = {
    "bridge": "The old bridge over the river was closed on Monday. Engineers found cracks in two of its arches.",
    "school": "The school has a new headmaster. Pupils and teachers met him in the hall after the holidays.",
    "market": "The Saturday market moves to the square. Traders had asked for more room for their stalls.",
}
SAID = {
    "bridge": ("cracks in the arches of the bridge", "the bridge is closed, long way round", "engineers on the bridge"),
    "school": ("who is the new headmaster", "pupils and teachers in the hall", "a new headmaster at the school"),
    "market": ("more room for stalls on the square", "the market moves", "traders asked for the square"),
}
articles = Articles.of(Article(body, name, f"News of the {name}") for name, body in STORIES.items())
posts = Posts.of(
    Post(f"{text} {extra}", f"{name}-{place}-{extra}", (name,))
    for name, said in SAID.items()
    for place, text in enumerate(said)
    for extra in ("today", "again", "they say")
)
corpus = Corpus(articles, posts)

# %% Learn how much each kind of likeness counts, and what a score is worth as a probability.
predictor = make("link")
for _ in predictor.fit(corpus):
    pass

# %% Ask about a new post.
(answer,) = predictor.predict([Post("all those cracks, no wonder they closed the bridge")], k=2)
for choice in answer.choices:
    print(f"{choice.value}  P(relevant) {choice.probability:.2f}  “{choice.sentence}”")

# %% A story that broke just now is welcome, without any post about it.
late = Articles.of([Article("A comet was seen over the town at night.", "comet")])
predictor.update(Corpus(late, Posts.of([])))
(comet,) = predictor.predict([Post("did you see that comet?")], k=1)
print(comet.choices[0].value)
