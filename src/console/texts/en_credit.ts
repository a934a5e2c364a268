/** What an account has for decisions. */
export const CREDIT = {
  navigation: "Credit",
  title: "Credit",
  levels: {
    low: "Credit runs low.",
    exhausted: "Credit is used up: nothing is decided until there is more.",
  },
  bannerLink: "See what is left, and whom to ask",
  levelHints: {
    low: "When it is used up, no decision is made, and applications refuse what they protect.",
    exhausted: "Applications refuse what they protect.",
  },
  price: "A decision costs",
  priceOf: (usd: string) => `${usd} US dollars, whether it allows or denies`,
  more: "More credit",
  ask: "Ask for more credit at",
  askNobody: "Ask the people who run this service for more credit.",
  name: "Name this account",
  postings: "Postings",
  when: "When",
  what: "What",
  amount: "US dollars",
  noPostings: "Nothing was posted yet. The first decision is the first charge.",
  kinds: { alpha_credit: "Credit to begin with", grant: "Credit granted", verification: "A decision" },
  reference: "reference",
};
