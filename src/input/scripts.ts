import { ApiError } from "../errors.ts";

/** Scripts that people write today, by their Unicode names (UAX 31, tables 5 and 7). */
const SCRIPTS = [
  ...["Adlam", "Arabic", "Armenian", "Balinese", "Bengali", "Bopomofo", "Canadian_Aboriginal", "Cham"],
  ...["Cherokee", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi", "Han"],
  ...["Hangul", "Hebrew", "Hiragana", "Javanese", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Lepcha"],
  ...["Limbu", "Lisu", "Malayalam", "Meetei_Mayek", "Mongolian", "Myanmar", "New_Tai_Lue", "Nko"],
  ...["Ol_Chiki", "Oriya", "Osage", "Saurashtra", "Sinhala", "Sundanese", "Syriac", "Tai_Le", "Tai_Tham"],
  ...["Tai_Viet", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan", "Tifinagh", "Vai", "Yi"],
];

/** Sets of scripts that one name may have together: those of Japanese, Chinese and Korean. */
const TOGETHER = [
  ["Latin", "Han", "Hiragana", "Katakana"],
  ["Latin", "Han", "Bopomofo"],
  ["Latin", "Han", "Hangul"],
];

const ALLOWED = [...TOGETHER, ...SCRIPTS.map((script) => [script])].map(
  (scripts) =>
    new RegExp(
      `^[\\p{Script=Common}\\p{Script=Inherited}${scripts.map((script) => `\\p{scx=${script}}`).join("")}]*$`,
      "u",
    ),
);

/**
 * Letters that names do not need and that look like others of their script: small capitals and script letters
 * of phonetic alphabets, click letters, and the Arabic stretch.
 */
const IMITATIONS =
  /[\u01c0-\u01c3\u0251\u0261\u026a\u0274\u0280\u028f\u0299\u029c\u029f\u0640\u1d00-\u1dbf\ua730\ua731\ua7fa]/u;

/** The message for a name that {@link isOneScript} rejects. */
export const MIXED_SCRIPTS =
  "must not mix scripts or have phonetic or styled letters, because such letters can look like others";

/** Characters that names need although they stand for Latin letters. */
const ABBREVIATIONS = /[ªº№℠™]/gu;
/** Letters and digits in the width of Chinese, Japanese and Korean characters. */
const FULL_WIDTH = /[\uff01-\uff5e]/gu;
const EAST_ASIAN = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}]/u;
const IMITATED = /[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}]/u;

/** Returns whether a name has styled forms of European letters, such as mathematical or circled ones. */
function hasStyledLetters(name: string): boolean {
  const others = name.normalize("NFC").replace(ABBREVIATIONS, "");
  const rest = EAST_ASIAN.test(name) ? others.replace(FULL_WIDTH, "") : others;
  return Array.from(rest).some((letter) => {
    const plain = letter.normalize("NFKC");
    return plain !== letter && IMITATED.test(plain);
  });
}

/**
 * Returns whether a name has letters of one script only, or of those that Japanese, Chinese and Korean write
 * together (UTS 39, "highly restrictive"), and none that only imitate others. Digits, punctuation and emoji
 * belong to every script. Full-width letters may stand beside East Asian ones.
 */
export function isOneScript(name: string): boolean {
  if (hasStyledLetters(name)) return false;
  const letters = name.normalize("NFKC");
  return !IMITATIONS.test(letters) && ALLOWED.some((allowed) => allowed.test(letters));
}

/**
 * Throws `invalid_request` if a name mixes scripts. A name that stays as it is may do so, because it can be
 * older than this rule.
 */
export function checkNewName(name: string, former?: string): void {
  if (name !== former && !isOneScript(name)) throw new ApiError("invalid_request", `name: ${MIXED_SCRIPTS}`);
}
