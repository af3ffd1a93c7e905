// Answer from an exported folder of task next in Node.js: node recommend.mjs FOLDER ITEM ...
// npm install onnxruntime-node
import { readFileSync } from "node:fs";
import { InferenceSession, Tensor } from "onnxruntime-node";

const [folder, ...items] = process.argv.slice(2);
// The index of an item in the vocabulary is its id; ids 0 and 1 are padding and unknown.
const vocabulary = JSON.parse(readFileSync(`${folder}/vocabulary.json`, "utf8"));
const ids = new Map(vocabulary.map((value, id) => [value, id]));
const history = items.filter((item) => ids.has(item)).map((item) => BigInt(ids.get(item)));

const session = await InferenceSession.create(`${folder}/network.onnx`);
// One row per session, padded with 0 at the end; seconds where the network reads times.
const shape = [1, history.length];
const inputs = {
  ids: new Tensor("int64", BigInt64Array.from(history), shape),
  times: new Tensor("float64", Float64Array.from(history.keys()), shape),
};
const known = Object.fromEntries(session.inputNames.map((name) => [name, inputs[name]]));
const scores = (await session.run(known, ["scores"])).scores.data;

// Scores of padding and unknown are -Infinity: their probability is 0.
const highest = Math.max(...scores);
const weights = Array.from(scores, (score) => Math.exp(score - highest));
const total = weights.reduce((sum, weight) => sum + weight, 0);
const best = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 5);
for (const id of best) console.log(`${vocabulary[id]} ${(weights[id] / total).toFixed(4)}`);
