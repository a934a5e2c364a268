/** What a validator says to programs, and what pages say instead; the first that fits is taken. */
export const FAULTS: readonly (readonly [RegExp, (...found: string[]) => string])[] = [
  [/^Too small: expected string to have >=1 character/, () => "Is missing"],
  [/^Invalid input: expected \w+, received (?:undefined|null|NaN)/, () => "Is missing"],
  [/^Too small: expected string to have >=(\d+)/, (least) => `Write ${least} characters at least`],
  [/^Too big: expected string to have <=(\d+)/, (most) => `Write ${most} characters at most`],
  [/^Too small: expected array to have >=(\d+)/, (least) => `Choose ${least} at least`],
  [/^Too big: expected array to have <=(\d+)/, (most) => `Choose ${most} at most`],
  [/^Too small: expected \w+ to be >=?(-?[\d.]+)/, (least) => `Write a number that is not below ${least}`],
  [/^Too big: expected \w+ to be <=?(-?[\d.]+)/, (most) => `Write a number that is not above ${most}`],
  [/^Invalid option/, () => "Choose one of those offered"],
  [/^invalid_integer\b|has no canonical form$/, () => "A number is too large, or has too many digits"],
  [/^(?:the )?limit is negative/i, () => "Write a number that is not below 0, and its unit"],
  [/^tz is not/i, () => "Write the time zone as the IANA database spells it, such as Europe/Berlin"],
  [/^start and end must be HH:MM/i, () => "Write hours and minutes, such as 09:30"],
  [/^count and window_s must/i, () => "Write a whole number above 0"],
  [
    /^(?:Too (?:small|big): |Invalid (?:input|string|number|key|element)|invalid_|Unrecognized )/,
    () => "This cannot be taken as it is: check it",
  ],
];
