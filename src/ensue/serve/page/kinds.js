// The questions, in the order of the story, and how their records and answers read.

const plural = (count, one, many) => `${count} ${count === 1 ? one : many}`;
const last = (item) => item.record.values[item.record.values.length - 1];

export const KINDS = [
  {
    key: "about", task: "link", name: "Posts about it", question: "Which article is this post about?",
    pick: "Posts of the last two days", own: "Or write a post", hint: "The night boat was full again, sixty people and one dog.",
    card: (item) => [item.record.text, `${item.who}, ${item.when}`], text: (item) => item.record.text,
    record: (text) => ({ text }), rank: "Articles, best first", score: "P(relevant)", truth: "really about",
    none: "It was about nothing in the paper.",
    evidence: "What the article loses without each word of the post",
  },
  {
    key: "says", task: "classify", name: "What they say", question: "What does this post say?",
    pick: "Posts of the last two days", own: "Or write a post", hint: "Who answers for the detour? Nobody, of course.",
    card: (item) => [item.record.texts[0], `${item.who}, ${item.when}`], text: (item) => item.record.texts[0],
    record: (text) => ({ texts: [text] }), rank: "Labels, likeliest first", score: "probability", truth: "meant",
    evidence: "The graph of words: who hands weight to whom",
  },
  {
    key: "shares", task: "next", part: "sharing", name: "Who passes it on", question: "Who passes it on next?",
    pick: "Posts on their way", steps: "Passed on so far", add: "Add a person", unit: ["person", "people"], pause: 1800,
    card: (item) => [item.text, `${item.who}; ${plural(item.record.values.length, "person", "people")} so far`],
    rank: "People, likeliest first", score: "probability", truth: "passed it on",
    evidence: "Who leaned on whom on the way",
  },
  {
    key: "reads", task: "next", part: "reading", name: "What is read next", question: "What is read next?",
    pick: "Readers of the last two days", steps: "Read so far", add: "Add an article", unit: ["article", "articles"], pause: 60,
    card: (item, name) => [`… ${name(last(item))}`, `${item.who}; ${plural(item.record.values.length, "article", "articles")} so far`],
    rank: "Articles, likeliest first", score: "probability", truth: "read next",
    evidence: "How much the answer leaned on each article",
  },
  {
    key: "searches", task: "suggest", name: "What is searched next", question: "What is searched next?",
    pick: "Searches of the last two days", steps: "Searched so far", add: "Type a search; suggestions follow each letter", unit: ["search", "searches"], pause: 20,
    card: (item) => [`… ${last(item)}`, `${item.who}; ${plural(item.record.values.length, "search", "searches")} so far`],
    rank: "Suggestions, best first", score: "share", truth: "typed next",
    evidence: "Which earlier words each suggested word leaned on",
  },
  {
    key: "next", task: "next", name: "What comes next", question: "What comes next?",
    steps: "So far", add: "Add a value", unit: ["value", "values"], pause: 60,
    rank: "Values, likeliest first", score: "probability", truth: "came next",
    evidence: "What the answer leaned on",
  },
];

// Which models stand in which panel: those that the story names in theirs, others by their task.
export function panelsOf(models, story) {
  const named = new Set(story ? Object.keys(story.panels) : []);
  return KINDS.map((kind) => ({
    kind,
    models: models.filter((model) => {
      if (model.task !== kind.task) return false;
      if (kind.task !== "next") return true;
      return kind.part ? named.has(kind.part) && model.name === kind.part : !(named.has(model.name) && ["sharing", "reading"].includes(model.name));
    }),
  })).filter((part) => part.models.length);
}
