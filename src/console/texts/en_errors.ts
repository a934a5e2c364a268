type Said = { title: string; explain?: string };

/** What pages say where an operation refuses. What is not here is said by the API's own message. */
export const FOREIGN = {
  home: "Go to the home page",
  lookBelow: "Something is not right yet: see below.",
  noCookie:
    "Your browser did not send back the cookie of this page. Allow cookies for this site, and send the form again",
  pages: {
    not_found: {
      title: "There is no such page",
      explain: "The address is wrong, or what was here belongs to somebody else or is gone.",
    },
    csrf_failed: {
      title: "This was not sent from here",
      explain: "Forms are taken from pages of this site only. Open the page again, and send it from there.",
    },
    method_not_allowed: { title: "That cannot be done here" },
    rate_limited: { title: "Too much at once" },
    unavailable: {
      title: "A part of the service is away",
      explain: "Nothing was changed by what you just opened. Try again in a moment.",
    },
    vault_unavailable: {
      title: "The key vault is away",
      explain: "Nothing was changed. Try again in a moment, or ask who runs this service.",
    },
    internal: {
      title: "Something went wrong on our side",
      explain: "It was written down for the people who run this service. Try again.",
    },
  } as Record<string, Said | undefined>,
  other: { title: "That did not work" } as Said,
  messages: {
    invalid_code: "The code is wrong, was used, has expired, or was tried too often. Ask for another one",
    onboarding_step: "This step was done before",
  } as Record<string, string | undefined>,
};
