/** Characters that show nothing, or change how what stands around them is shown. */
export const HIDDEN = /[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\u2028\u2029\ufff9-\ufffb]/u;

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
const EMOJI = "\\p{Extended_Pictographic}\\p{Emoji_Modifier}";

/** Where a character that is otherwise hidden has its use: it changes how a letter of these scripts or a picture looks. */
const IN_USE = new RegExp(
  [
    `(?<=[${JOINING}])[${JOINERS}](?=[${JOINING}])`,
    `(?<=[${EMOJI}]\\ufe0f?)\\u200d(?=\\p{Extended_Pictographic})`,
    "(?<=\\p{Extended_Pictographic})[\\ufe0e\\ufe0f]",
    "(?<=[0-9#*])\\ufe0f(?=\\u20e3)",
    "(?<=\\p{Script=Han})[\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}]",
  ].join("|"),
  "gu",
);

/**
 * Whether people see all of a text, in the order in which it stands: no bidi controls, no zero-width or other invisible
 * characters, no tags, no lone surrogates. Somebody approves by what they see, so a text that hides something is refused
 * and not cleaned: a name without its hidden part could be somebody else's.
 *
 * Joiners and variation selectors are taken where they are a part of writing: between letters of the scripts that join,
 * in emoji, and after Han characters. Elsewhere, as between Latin letters, they only make two names look alike.
 */
export function isPlainText(text: string): boolean {
  return text.isWellFormed() && !HIDDEN.test(text.replaceAll(IN_USE, ""));
}
