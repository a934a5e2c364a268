import { AWKWARD_BYTES, AWKWARD_TOKENS } from "./dictionary.ts";
import { pick, type Random } from "./random.ts";

/** Also matches an unterminated string, so that the expression never backtracks. */
const TOKENS = /"(?:[^"\\]|\\[\s\S])*"?|-?\d[\d.eE+-]*|true|false|null|[\s\S]/g;
const BASE64 = /^"[A-Za-z0-9+/]{40,}={0,2}"$/;
const LAST_CHARACTERS = [..."ABCDQRgwx1/"];
const MAX_BYTES = 140_000;
const MOST_CHANGES = 4;

type Mutation = (input: Uint8Array, other: Uint8Array, random: Random) => Uint8Array;

/**
 * Returns a copy of `input` with one to four mutations of its bytes or of its JSON tokens. Mutations may
 * insert pieces of `other`.
 */
export function mutate(input: Uint8Array, other: Uint8Array, random: Random): Uint8Array {
  let changed = input;
  for (let changes = 1 + random(MOST_CHANGES); changes > 0; changes -= 1) {
    changed = pick(random, MUTATIONS)(changed, other, random);
  }
  return changed.subarray(0, MAX_BYTES);
}

const flipBit: Mutation = (input, _, random) => {
  const changed = Uint8Array.from(input);
  const at = random(changed.length + 1);
  if (at < changed.length) changed[at] = (changed[at] ?? 0) ^ (1 << random(8));
  return changed;
};

const insertBytes: Mutation = (input, _, random) => {
  const at = random(input.length + 1);
  return Buffer.concat([input.subarray(0, at), pick(random, AWKWARD_BYTES), input.subarray(at)]);
};

const moveBytes: Mutation = (input, other, random) => {
  const from = random(other.length + 1);
  const piece = other.subarray(from, from + 1 + random(64));
  const at = random(input.length + 1);
  return Buffer.concat([input.subarray(0, at), piece, input.subarray(at + random(2) * piece.length)]);
};

const cutBytes: Mutation = (input, _, random) => {
  const at = random(input.length + 1);
  return Buffer.concat([input.subarray(0, at), input.subarray(at + 1 + random(64))]);
};

const replaceToken = onTokens((tokens, _, random) => {
  tokens[random(tokens.length)] = pick(random, AWKWARD_TOKENS);
});

const exchangeToken = onTokens((tokens, others, random) => {
  const at = random(tokens.length);
  const sameKind = others.filter((other) => other[0] === tokens[at]?.[0]);
  if (sameKind.length > 0) tokens[at] = pick(random, sameKind);
});

const respellToken = onTokens((tokens, _, random) => {
  const at = random(tokens.length);
  const token = tokens[at] ?? "";
  const unit = random(token.length + 1);
  const spelled = `\\u${token.charCodeAt(unit).toString(16).padStart(4, "0")}`;
  if (token.startsWith('"') && unit > 0 && unit < token.length - 1 && !token.includes("\\")) {
    tokens[at] = token.slice(0, unit) + spelled + token.slice(unit + 1);
  }
});

const changeNumber = onTokens((tokens, _, random) => {
  const numbers = tokens.flatMap((token, at) => (/^-?\d/.test(token) ? [at] : []));
  if (numbers.length === 0) return;
  const at = pick(random, numbers);
  const value = Number(tokens[at]);
  const changed = [
    value + 1,
    value - 1,
    -value,
    value * 1.5,
    value / 3,
    value + 300,
    value - 301,
    value * 1e300,
  ];
  tokens[at] = String(pick(random, changed));
});

const changeBytesInside = onTokens((tokens, _, random) => {
  const encoded = tokens.flatMap((token, at) => (BASE64.test(token) ? [at] : []));
  if (encoded.length === 0) return;
  const at = pick(random, encoded);
  const bytes = Buffer.from(tokens[at] ?? "", "base64");
  tokens[at] = JSON.stringify(Buffer.from(flipBit(bytes, bytes, random)).toString("base64"));
});

const loosenBase64 = onTokens((tokens, _, random) => {
  const encoded = tokens.flatMap((token, at) => (BASE64.test(token) ? [at] : []));
  if (encoded.length === 0) return;
  const at = pick(random, encoded);
  const token = tokens[at] ?? "";
  tokens[at] = pick(random, [
    token.replace(/.(=*"$)/, `${pick(random, LAST_CHARACTERS)}$1`),
    token.replace(/=+"$/, '"'),
    token.replace(/"$/, '="'),
    token.replace(/\+/, "-").replace(/\//, "_"),
    token.replace(/^"/, '" '),
    token.replace(/"$/, '\\n"'),
  ]);
});

const doubleTokens = onTokens((tokens, _, random) => {
  const from = random(tokens.length);
  const piece = tokens.slice(from, from + 1 + random(24));
  tokens.splice(random(2) === 0 ? from : random(tokens.length), 0, ...piece);
});

const spliceTokens = onTokens((tokens, others, random) => {
  const from = random(others.length + 1);
  const piece = others.slice(from, from + 1 + random(48));
  tokens.splice(random(tokens.length), random(piece.length + 1), ...piece);
});

const cutTokens = onTokens((tokens, _, random) => {
  tokens.splice(random(tokens.length), 1 + random(8));
});

const wrapToken = onTokens((tokens, _, random) => {
  const at = random(tokens.length);
  const depth = 1 + random(18);
  tokens[at] =
    random(2) === 0
      ? "[".repeat(depth) + tokens[at] + "]".repeat(depth)
      : '{"a":'.repeat(depth) + tokens[at] + "}".repeat(depth);
});

const repeatItems = onTokens((tokens, _, random) => {
  const opening = tokens.flatMap((token, at) => (token === "[" ? [at] : []));
  if (opening.length === 0) return;
  const at = pick(random, opening);
  tokens[at] = `[${`${pick(random, AWKWARD_TOKENS)},`.repeat(pick(random, [1, 9, 31, 32, 127, 128, 5000]))}`;
});

const MUTATIONS: readonly Mutation[] = [
  flipBit,
  insertBytes,
  moveBytes,
  cutBytes,
  replaceToken,
  exchangeToken,
  exchangeToken,
  respellToken,
  changeNumber,
  changeNumber,
  changeBytesInside,
  changeBytesInside,
  loosenBase64,
  doubleTokens,
  spliceTokens,
  cutTokens,
  wrapToken,
  repeatItems,
];

function onTokens(change: (tokens: string[], others: string[], random: Random) => void): Mutation {
  return (input, other, random) => {
    const tokens = tokensOf(input);
    if (tokens.length === 0) return input;
    change(tokens, tokensOf(other), random);
    return Buffer.from(tokens.join(""), "utf8");
  };
}

function tokensOf(document: Uint8Array): string[] {
  return Buffer.from(document).toString("utf8").match(TOKENS) ?? [];
}
