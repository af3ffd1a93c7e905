// What the page asks of the service it came from.

const KEY = "ensue-token";

export class Refused extends Error {
  constructor(status, message, hint) {
    super(message);
    this.status = status;
    this.hint = hint;
  }
}

export function keepToken(token) {
  if (token) sessionStorage.setItem(KEY, token);
  else sessionStorage.removeItem(KEY);
}

export function hasToken() {
  return Boolean(sessionStorage.getItem(KEY));
}

async function ask(address, options = {}) {
  const token = sessionStorage.getItem(KEY);
  const headers = { accept: "application/json", ...options.headers };
  if (token) headers.authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(address, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The service does not answer.", "Is it still running? Start it again, then try again.");
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw refusal(answer.status, body);
  if (body === null) throw new Refused(answer.status, "The service answered with something that is no JSON.");
  return body;
}

function refusal(status, body) {
  const message = body && typeof body.error === "string" ? body.error : `The service answered ${status}.`;
  const hint = body && typeof body.hint === "string" ? body.hint : undefined;
  return new Refused(status, message, hint);
}

function post(address, body, signal) {
  return ask(address, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
}

const of = (name, verb) => `/v1/models/${encodeURIComponent(name)}/${verb}`;

export const models = () => ask("/v1/models");

export async function story() {
  try {
    return await ask("/v1/story");
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

export async function predict(name, record, k, prefix, signal) {
  const body = { records: [record], k };
  if (prefix !== undefined) body.prefixes = [prefix];
  return (await post(of(name, "predict"), body, signal)).answers[0];
}

export function figure(name, record, k, choice, prefix, signal) {
  const body = { record, k, choice };
  if (prefix) body.prefix = prefix;
  return post(of(name, "figure"), body, signal);
}

export const description = () => ask("/openapi.json");
