import { ApiError } from "../errors.ts";
import { named } from "../input/ceiling.ts";
import type { ScopeDescriptions } from "../input/platform_fields.ts";
import { isOneScript, MIXED_SCRIPTS } from "../input/scripts.ts";
import { SCOPE_WORDS } from "../protocol/documents/scope_words.ts";

/** Most bytes of all words of a platform. Each request stores those of its scopes. */
const MOST_BYTES = 16_384;

/**
 * Checks the words of a platform for its custom scopes. Throws `invalid_scopes` unless each scope is a custom
 * scope of the ceiling. Throws `invalid_request` for a label that mixes scripts, that looks like the words or
 * the name of a scope of the vocabulary, or that looks like another label, and for more than 16,384 bytes.
 */
export function checkDescriptions(ceiling: readonly string[], descriptions: ScopeDescriptions): void {
  const foreign = Object.keys(descriptions).filter(
    (scope) => !(scope.startsWith("custom:") && ceiling.includes(scope)),
  );
  if (foreign.length > 0) {
    throw new ApiError(
      "invalid_scopes",
      `scope_descriptions: not custom scopes of the platform: ${named(foreign)}`,
    );
  }
  if (Buffer.byteLength(JSON.stringify(descriptions)) > MOST_BYTES) {
    throw new ApiError("invalid_request", `scope_descriptions: must not exceed ${MOST_BYTES} bytes in JSON`);
  }
  const taken = new Set(BUILT_IN);
  for (const { label } of Object.values(descriptions)) {
    if (!isOneScript(label)) throw refused(MIXED_SCRIPTS);
    const look = lookOf(label);
    if (BUILT_IN.has(look)) throw refused("must not look like a scope of the vocabulary");
    const key = look === "" ? label : look;
    if (taken.has(key)) throw refused("must differ from the other labels");
    taken.add(key);
  }
}

function refused(fault: string): ApiError {
  return new ApiError("invalid_request", `scope_descriptions: label: ${fault}`);
}

/**
 * Returns a text without differences that readers overlook: case, accents of European letters, punctuation,
 * and 0 for o. Marks of other letters can be vowels, which change the word.
 */
function lookOf(text: string): string {
  return text
    .normalize("NFKD")
    .toLowerCase()
    .replaceAll("0", "o")
    .replaceAll(/[1i|]/g, "l")
    .replaceAll(/[^\p{L}\p{M}\p{N}]/gu, "")
    .replaceAll(/(^|[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{N}])\p{M}+/gu, "$1");
}

const BUILT_IN: ReadonlySet<string> = new Set(Object.entries(SCOPE_WORDS).flat().map(lookOf));

/** Returns the words for these scopes only. */
export function pickDescriptions(
  descriptions: ScopeDescriptions,
  scopes: readonly string[],
): ScopeDescriptions {
  return Object.fromEntries(Object.entries(descriptions).filter(([scope]) => scopes.includes(scope)));
}
