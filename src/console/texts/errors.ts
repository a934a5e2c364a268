/** Replacements for messages that are written for programs. The first matching pattern applies. */
const FAULTS: readonly (readonly [RegExp, (...found: string[]) => string])[] = [
  [/^Too small: expected string to have >=1 character/, () => "Is missing"],
  [/^Invalid input: expected \w+, received (?:undefined|null|NaN)/, () => "Is missing"],
  [/^Too small: expected string to have >=(\d+)/, (least) => `Write at least ${least} characters`],
  [/^Too big: expected string to have <=(\d+)/, (most) => `Write at most ${most} characters`],
  [/^Too small: expected array to have >=(\d+)/, (least) => `Choose at least ${least}`],
  [/^Too big: expected array to have <=(\d+)/, (most) => `Choose at most ${most}`],
  [/^Too small: expected \w+ to be >=?(-?[\d.]+)/, (least) => `Write a number that is not below ${least}`],
  [/^Too big: expected \w+ to be <=?(-?[\d.]+)/, (most) => `Write a number that is not above ${most}`],
  [/^Invalid option/, () => "Choose one of those offered"],
  [
    /^invalid_integer\b|±\(2\^53−1\)$|has no canonical form$/,
    () => "A number is too large, or has too many digits",
  ],
  [
    /^cookie: .+ is sent twice/,
    () =>
      "Another site has put a cookie of this site into your browser. It is removed now. Open the page again",
  ],
  [/^(?:the )?limit is negative/i, () => "Write a number that is not below 0, and its unit"],
  [/^tz is not/i, () => "Write the time zone as the IANA database spells it, such as Europe/Berlin"],
  [/^start and end must be HH:MM/i, () => "Write hours and minutes, such as 09:30"],
  [/^count and window_s must/i, () => "Write a whole number above 0"],
  [
    /^(?:Too (?:small|big): |Invalid (?:input|string|number|key|element)|invalid_|Unrecognized )/,
    () => "This is not valid: check it",
  ],
];

type Said = { title: string; explain?: string };

/** Error messages by error code. For all other codes, pages show the API's own message. */
export const ERRORS = {
  home: "Go to the home page",
  lookBelow: "Something is not right yet: see below.",
  noCookie:
    "Your browser did not send back the cookie of this page. Allow cookies for this site, and send the form again",
  pages: {
    not_found: {
      title: "There is no such page",
      explain: "The address is wrong, or what was here belongs to somebody else or is gone.",
    },
    forbidden: {
      title: "Your role does not allow this",
      explain:
        "Another role in the organization allows this. An owner can give you another role; the page of the organization says what each role may do.",
    },
    not_available: {
      title: "This is for organizations",
      explain: "You act for an account that is not an organization.",
    },
    csrf_failed: {
      title: "This form was not sent from this site",
      explain:
        "Forms are accepted only from pages of this site. Open the page again, and send it from there.",
    },
    method_not_allowed: { title: "That cannot be done here" },
    rate_limited: { title: "Too much in a short time" },
    unavailable: {
      title: "A part of the service is unavailable",
      explain: "Nothing was changed by what you just opened. Try again in a moment.",
    },
    vault_unavailable: {
      title: "The key vault is unavailable",
      explain: "Nothing was changed. Try again in a moment, or ask the people who run this service.",
    },
    internal: {
      title: "Something went wrong on our side",
      explain: "The error was recorded for the people who run this service. Try again.",
    },
  } as Record<string, Said | undefined>,
  other: { title: "That did not work" } as Said,
  faults: FAULTS,
  messages: {
    vault_unavailable: "The key vault is unavailable, and nothing was signed. Send it again in a moment",
    invalid_code: "The code is wrong, was used, has expired, or was tried too often. Ask for another one",
    scope_not_requested: "Tick at least one thing that was asked for, and nothing else",
    invalid_invitation:
      "The code is wrong, was used or withdrawn, is older than 7 days, or is for another e-mail address than the one you signed in with. Ask the person who invited you for another code",
    address_changed:
      "The e-mail address was changed in the last 7 days. Delete the account later, or first put the former address back with the link in the mail to it",
    last_owner:
      "An organization always has an owner, and this is the only one. Make another member an owner first",
    already_member: "This address already belongs to a member",
    invalid_domain:
      "Give a domain that people can register, such as example.com; no address, and no ending such as co.uk",
    filter_limit: "You have 20 saved filters. Delete one first",
    domain_limit: "An organization has 20 domains at most. Remove one first",
    domain_record_missing:
      "DNS does not have this record yet. Compare name and value, wait some minutes, and check again",
    domain_taken:
      "Another organization has verified this domain, and its record is still there. Remove that record first",
    onboarding_step: "This step is already done",
    idempotency_conflict:
      "This form was sent before with other values, and that was done. Send it again to do this, too",
  } as Record<string, string | undefined>,
};
