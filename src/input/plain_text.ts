/** Characters that are invisible, or that change how the text around them is displayed. */
export const HIDDEN =
  /[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\u2028\u2029\u2800\ufff9-\ufffc\u{13430}-\u{13442}\u{1d159}]/u;

/**
 * Unusual spaces, which look like a normal space, and code points without a defined appearance, except those
 * that are reserved for future emoji.
 */
const UNKNOWN_LOOK = /[^\P{Zs} ]|\p{Co}|(?!\p{Extended_Pictographic})\p{Cn}/u;

/** Combining marks without a base letter, and so many marks on one letter that they cover its neighbors. */
const STRAY_MARKS = /(?:^|\s)\p{M}|[\p{Mn}\p{Me}]{5}/u;

const JOINERS = "\\u200c\\u200d";
/** Scripts in which joiners are part of normal spelling. */
const JOINING = [
  ...[
    "Arabic",
    "Syriac",
    "Mongolian",
    "Nko",
    "Devanagari",
    "Bengali",
    "Gurmukhi",
    "Gujarati",
    "Oriya",
    "Tamil",
  ],
  ...["Telugu", "Kannada", "Malayalam", "Sinhala", "Khmer", "Myanmar", "Tibetan"],
]
  .map((script) => `\\p{Script=${script}}`)
  .join("");
/** Scripts that use the wide space U+3000. */
const WIDE = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}";
const EMOJI = "\\p{Extended_Pictographic}\\p{Emoji_Modifier}";

/** Positions in which an otherwise hidden character changes the appearance of a letter or an emoji. */
const IN_USE = new RegExp(
  [
    `(?<=[${JOINING}])[${JOINERS}](?=[${JOINING}])`,
    `(?<=[${EMOJI}]\\ufe0f?)\\u200d(?=\\p{Extended_Pictographic})`,
    "(?<=\\p{Extended_Pictographic})[\\ufe0e\\ufe0f]",
    "(?<=[0-9#*])\\ufe0f(?=\\u20e3)",
    "(?<=\\p{Script=Han})[\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}]",
    `(?<=[${WIDE}])\\u3000(?=[${WIDE}])`,
  ].join("|"),
  "gu",
);

/** The message for a text that {@link isPlainText} rejects. */
export const HIDDEN_TEXT =
  "must be entirely visible: no invisible characters, unusual spaces, stray marks or changes of direction";

/**
 * Returns whether a reader sees all of a text, in its stored order. A plain text contains:
 * - no bidi controls, zero-width characters, tags or other invisible characters
 * - no space but U+0020, and not only spaces
 * - no private-use or unassigned code points and no lone surrogates
 * - no combining mark without a letter, and at most four on one letter
 *
 * Users approve what they see. A text with hidden characters is rejected and not cleaned, because without
 * these characters, a name could equal the name of someone else.
 *
 * Joiners, variation selectors and the wide space are accepted where normal writing uses them: between
 * letters of joining scripts, in emoji, after Han characters, and between Han characters and kana. Elsewhere,
 * they only make two different names look the same. Code points reserved for emoji are accepted, so that
 * emoji newer than the runtime are accepted too.
 */
export function isPlainText(text: string): boolean {
  const shown = text.replaceAll(IN_USE, "");
  const isBlank = text !== "" && text.trim() === "";
  return (
    text.isWellFormed() &&
    !isBlank &&
    ![HIDDEN, UNKNOWN_LOOK, STRAY_MARKS].some((pattern) => pattern.test(shown))
  );
}

/** Returns whether a text is plain and one line, without control characters or a space at either end. */
export function isPlainLine(text: string): boolean {
  return isPlainText(text) && !/^ | $|\p{Cc}/u.test(text);
}
