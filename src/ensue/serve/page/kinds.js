// The questions, in the order of the story, and how their records and answers read: the page's only table of them.
// A served model says its `view`; `part` is the model of the story that a question is about. A record is written as a
// text (`form`), or as steps that are added; with `typed`, an answer follows each letter.

export const plural = (count, one, many) => `${count} ${count === 1 ? one : many}`;
const last = (item) => item.record.values[item.record.values.length - 1];

export const KINDS = [
  {
    key: "about", view: "posts", form: "text", example: "a title", closest: true, name: "Posts about it", question: "Which article is this post about?",
    pick: "Posts of the last two days", own: "Or write a post", hint: "The night boat was full again, sixty people and one dog.",
    card: (item) => [item.record.text, `${item.who}, ${item.when}`], text: (item) => item.record.text,
    record: (text) => ({ text }), rank: "Articles, best first", score: "P(relevant)", truth: "really about",
    none: "It was about nothing in the paper.",
    evidence: "The drop of the article's score without each word of the post",
  },
  {
    key: "says", view: "texts", form: "text", example: "a word", thing: "word", name: "What they say", question: "What does this post say?",
    pick: "Posts of the last two days", own: "Or write a post", hint: "Who answers for the detour? Nobody, of course.",
    card: (item) => [item.record.texts[0], `${item.who}, ${item.when}`], text: (item) => item.record.texts[0],
    record: (text) => ({ texts: [text] }), rank: "Labels, likeliest first", score: "probability", truth: "meant",
    evidence: "The graph of words: who hands weight to whom",
  },
  {
    key: "shares", view: "events", part: "sharing", name: "Who passes it on", question: "Who passes it on next?",
    pick: "Posts on their way", steps: "Passed on so far", add: "Add a person", unit: ["person", "people"], pause: 1800,
    card: (item) => [item.text, `${item.who}; ${plural(item.record.values.length, "person", "people")} so far`],
    rank: "People, likeliest first", score: "probability", truth: "passed it on",
    evidence: "Who leaned on whom on the way",
  },
  {
    key: "reads", view: "events", part: "reading", name: "What is read next", question: "What is read next?",
    pick: "Readers of the last two days", steps: "Read so far", add: "Add an article", unit: ["article", "articles"], pause: 60,
    card: (item, name) => [`… ${name(last(item))}`, `${item.who}; ${plural(item.record.values.length, "article", "articles")} so far`],
    rank: "Articles, likeliest first", score: "probability", truth: "read next",
    evidence: "How much the answer leaned on each article",
  },
  {
    key: "searches", view: "queries", typed: true, name: "What is searched next", question: "What is searched next?",
    pick: "Searches of the last two days", steps: "Searched so far", add: "Type a search; suggestions follow each letter", unit: ["search", "searches"], pause: 20,
    card: (item) => [`… ${last(item)}`, `${item.who}; ${plural(item.record.values.length, "search", "searches")} so far`],
    rank: "Suggestions, best first", score: "share", truth: "typed next",
    evidence: "Which earlier words each suggested word leaned on",
  },
  {
    key: "next", view: "events", name: "What comes next", question: "What comes next?",
    steps: "So far", add: "Add a value", unit: ["value", "values"], pause: 60,
    rank: "Values, likeliest first", score: "probability", truth: "came next",
    evidence: "What the answer leaned on",
  },
];

// Which models stand in which panel: those that the story names in theirs, others by their view.
export function panelsOf(models, story) {
  const inStory = (name) => Boolean(story) && name in story.panels;
  const parts = new Set(KINDS.map((kind) => kind.part).filter(inStory));
  const fits = (kind) => (model) => model.view === kind.view && (kind.part ? inStory(kind.part) && model.name === kind.part : !parts.has(model.name));
  return KINDS.map((kind) => ({ kind, models: models.filter(fits(kind)) })).filter((part) => part.models.length);
}
