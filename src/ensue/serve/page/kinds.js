// The questions of the page, and the wording of their records and answers.
// A served model says its `view`; `part` is the model of the story that a question is about. A record is written as a
// text (`form`), or as steps that are added; with `typed`, an answer follows each letter.

export const plural = (count, one, many) => `${count} ${count === 1 ? one : many}`;
const last = (item) => item.record.values[item.record.values.length - 1];

export const KINDS = [
  {
    key: "about", view: "posts", form: "text", example: "a title", closest: true, name: "Posts about it", question: "Which article is this post about?",
    pick: "Posts of the last two days", own: "Or write a post", hint: "The night boat was full again, sixty people and one dog.",
    card: (item) => [item.record.text, `${item.who}, ${item.when}`], text: (item) => item.record.text,
    record: (text) => ({ text }), rank: "Articles, best first", score: "P(relevant)", truth: "true article",
    none: "The post is about no article.",
    evidence: "Score drop of the article without each word of the post",
  },
  {
    key: "says", view: "texts", form: "text", example: "a word", thing: "word", name: "What they say", question: "What does this post say?",
    pick: "Posts of the last two days", own: "Or write a post", hint: "Who answers for the detour? Nobody, of course.",
    card: (item) => [item.record.texts[0], `${item.who}, ${item.when}`], text: (item) => item.record.texts[0],
    record: (text) => ({ texts: [text] }), rank: "Labels, most likely first", score: "probability", truth: "true label",
    evidence: "Graph of words: attention between them",
  },
  {
    key: "shares", view: "events", part: "sharing", name: "Who passes it on", question: "Who passes it on next?",
    pick: "Posts on their way", steps: "Passed on so far", add: "Add a person", unit: ["person", "people"], pause: 1800,
    card: (item) => [item.text, `${item.who}; ${plural(item.record.values.length, "person", "people")} so far`],
    rank: "People, most likely first", score: "probability", truth: "passed it on",
    evidence: "Attention between users of the cascade",
  },
  {
    key: "reads", view: "events", part: "reading", name: "What is read next", question: "What is read next?",
    pick: "Readers of the last two days", steps: "Read so far", add: "Add an article", unit: ["article", "articles"], pause: 60,
    card: (item, name) => [`… ${name(last(item))}`, `${item.who}; ${plural(item.record.values.length, "article", "articles")} so far`],
    rank: "Articles, most likely first", score: "probability", truth: "read next",
    evidence: "Attention weight of each article",
  },
  {
    key: "searches", view: "queries", typed: true, name: "What is searched next", question: "What is searched next?",
    pick: "Searches of the last two days", steps: "Searched so far", add: "Type a search; suggestions follow each letter", unit: ["search", "searches"], pause: 20,
    card: (item) => [`… ${last(item)}`, `${item.who}; ${plural(item.record.values.length, "search", "searches")} so far`],
    rank: "Suggestions, best first", score: "score", truth: "typed next",
    evidence: "Attention of suggested words to earlier words",
  },
  {
    key: "next", view: "events", name: "What comes next", question: "What comes next?",
    steps: "So far", add: "Add an item", unit: ["item", "items"], pause: 60,
    rank: "Items, most likely first", score: "probability", truth: "came next",
    evidence: "Attention weights of the answer",
  },
];

// Which models stand in which panel: those that the story names in theirs, others by their view.
export function panelsOf(models, story) {
  const inStory = (name) => Boolean(story) && name in story.panels;
  const parts = new Set(KINDS.map((kind) => kind.part).filter(inStory));
  const fits = (kind) => (model) => model.view === kind.view && (kind.part ? inStory(kind.part) && model.name === kind.part : !parts.has(model.name));
  return KINDS.map((kind) => ({ kind, models: models.filter(fits(kind)) })).filter((part) => part.models.length);
}
