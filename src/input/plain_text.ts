/** Characters that show nothing, or change how the text around them is shown. */
export const HIDDEN =
  /[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\u2028\u2029\u2800\ufff9-\ufffc\u{13430}-\u{13442}\u{1d159}]/u;

/**
 * Spaces that look like the plain one, and code points that nobody can say the look of. Future pictures have
 * theirs reserved.
 */
const UNKNOWN_LOOK = /[^\P{Zs} ]|\p{Co}|(?!\p{Extended_Pictographic})\p{Cn}/u;

/** Marks without a letter below them, and so many on one that they cover its neighbours. */
const STRAY_MARKS = /(?:^|\s)\p{M}|[\p{Mn}\p{Me}]{5}/u;

const JOINERS = "\\u200c\\u200d";
/** Scripts whose words are written with joiners. */
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
/** Scripts that are written with the wide space. */
const WIDE = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}";
const EMOJI = "\\p{Extended_Pictographic}\\p{Emoji_Modifier}";

/**
 * Where a character that is otherwise hidden has its use: it changes how a letter of these scripts or a
 * picture looks.
 */
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

/** The message for a text that {@link isPlainText} refuses. */
export const HIDDEN_TEXT =
  "must be entirely visible: no invisible characters, unusual spaces, stray marks or changes of direction";

/**
 * Whether people see all of a text, in the order in which it is stored: no bidi controls, no zero-width or
 * other invisible characters, no space but U+0020, no private-use or unassigned code points, no tags, no lone
 * surrogates, no marks without a letter or more than four on one letter, and something other than spaces.
 * Somebody approves by what they see, so a text that hides something is refused and not cleaned: a name
 * without its hidden part could be somebody else's.
 *
 * Joiners, variation selectors and the wide space are taken where they are a part of writing: between letters
 * of the scripts that join, in emoji, after Han characters, and between Han characters and kana. Elsewhere,
 * as between Latin letters, they only make two names look alike.
 *
 * Which code points are unassigned depends on the runtime's Unicode. Code points that are reserved for emoji
 * are taken all the same, so that an emoji newer than the runtime is.
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

/**
 * Whether a text is plain and one line: no control characters, and no space at an end, where nobody sees it.
 */
export function isPlainLine(text: string): boolean {
  return isPlainText(text) && !/^ | $|\p{Cc}/u.test(text);
}
